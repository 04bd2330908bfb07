#!/bin/sh
# Holds the rooms apart: what each folder may include, and that no modules, a .c and its .h being one, include each
# other in a circle; that no folder grows into a warehouse; that files which pages and comments name are there. And
# whatever serves requests allocates by the try-functions of base/memory.h, which end a request and not the server.
# Every include of ours is written from the top of the tree, so that a grep sees all of them.
set -eu
cd "$(dirname "$0")/.."
includes=$(git ls-files '*.[ch]' | xargs grep -H '^#include "' | sed 's/:#include "\(.*\)".*/ \1/')
echo "$includes" | awk '
    function allow(room, list) { allowed[room] = " " room " " list " " }
    # Its folder, or for tests and examples the first.
    function room_of(path) {
        if (path ~ /^(tests|examples)\//) return "tests"
        sub(/\/[^\/]*$/, "", path)
        return path
    }
    function module_of(path) {
        sub(/^model\//, " model:", path)
        sub(/\.[ch]$/, " ", path)
        return path
    }
    BEGIN {
        base = "base base/json base/options"
        model = base " model/kernels model/ops model/attention model"
        weights = model " tokenizer tokenizer/jinja weights weights/import"
        engine = weights " server/metrics server/form server/engine"
        api = engine " server/api"
        pooling = api " server/api/completions server/api/pooling"
        chat = api " server/api/completions server/api/chat"
        dialects = chat " server/api/llama server/api/responses"
        serving = pooling " " dialects " server/api/schema server/gate server/http server/page server/batch server"
        loop = weights " trainer/text trainer/tasks trainer/ranks trainer"
        commands = loop " base/options trainer/report trainer/commands"
        allow("base", "")
        allow("base/json", "base")
        allow("base/options", "base")
        allow("tokenizer", base)
        allow("tokenizer/jinja", base)
        # In model/ files count: nouns at the bottom, kernels and operations on them, then what is made of those.
        nouns = " model:tensor model:tape model:config model:kind model:normals model:params model:shape model:kv"
        layers = nouns " model:forward model:linear model:norm model:noise model:sas"
        allow("model/kernels", base " model:tensor model/kernels/vectors")
        allow("model/kernels/vectors", base " model:tensor model/kernels")
        allow("model/ops", base " model/kernels" nouns)
        allow("model/attention", base " model/kernels model/ops" layers)
        allow("model:nouns", base " model/kernels" nouns)
        allow("model", model)
        allow("weights", weights)
        allow("weights/import", weights)
        allow("trainer/text", weights " trainer/ranks")
        allow("trainer/tasks", weights " trainer/text trainer/ranks")
        allow("trainer/ranks", weights)
        allow("trainer", loop)
        allow("trainer/report", loop)
        allow("trainer/commands", commands)
        allow("trainer/mpi", weights " base/options trainer/ranks trainer/commands")
        allow("server/gate", base)
        allow("server/http", base " server/gate")
        allow("server/metrics", base)
        allow("server/page", base)
        allow("server/form", base " tokenizer")
        allow("server/engine", engine)
        allow("server/api", api)
        allow("server/api/completions", api)
        allow("server/api/pooling", api " server/api/completions")
        allow("server/api/chat", api " server/api/completions")
        allow("server/api/llama", dialects)
        allow("server/api/responses", dialects)
        allow("server/api/schema", pooling " " dialects)
        allow("server/batch", serving)
        allow("server", serving)
        allow("tests", commands " trainer/mpi model/kernels/vectors " serving)
    }
    {
        from = room_of($1); to = room_of($2)
        if (from == "model" && index(nouns " ", module_of($1))) from = "model:nouns"
        if (!index(allowed[from], " " to " ") && !index(allowed[from], module_of($2))) { print $1 ": may not include " $2; bad = 1 }
        sub(/\.[ch]$/, "", $1); sub(/\.[ch]$/, "", $2)
        if ($1 != $2) edges[$1] = edges[$1] " " $2
    }
    function visit(file, path, next_, i, n) {
        if (state[file] == 2) return
        if (state[file] == 1) { print "a circle: " path; bad = 1; return }
        state[file] = 1
        n = split(edges[file], next_, " ")
        for (i = 1; i <= n; i++) visit(next_[i], path " -> " next_[i])
        state[file] = 2
    }
    END { for (file in edges) visit(file, file); exit bad }'

git ls-files '*.[ch]' | sed 's,/[^/]*$,,' | sort | uniq -c | awk '
    $1 > 46 { print $2 ": " $1 " sources, a folder has at most 46"; bad = 1 }
    END { exit bad }'

# What a page or a comment calls by its path, from the top of the tree or from beside it, is there.
git grep -noP '(?<![\w%:/.$*<"-])(\.\./)*[\w-]+(/[\w-]+)*/[\w-]+\.(c|h|md)\b(?!>)' \
    -- '*.[ch]' '*.md' ':!CHANGELOG.md' ':!docs/first-hour.md' | (
    while IFS=: read -r file line name; do
        [ -e "$name" ] || [ -e "${file%/*}/$name" ] || { echo "$file:$line: there is no $name"; bad=1; }
    done
    exit ${bad:-0}
)

# These make what is there before the first request, or a version that memory_survives loads.
at_start=$(printf ':!%s\n' server/main.c server/workers.c \
    server/engine/draft.c server/engine/team_size.c server/engine/engine.c server/engine/kv_pool.c \
    server/engine/runner.c server/engine/scheduler.c)
if git grep -nE '\<(x(malloc|calloc|realloc|strdup|aligned)|memory_exhausted|malloc|calloc|realloc|strdup)\(' \
    -- 'server/*.c' tokenizer/encode.c tokenizer/merge.c tokenizer/diversity.c tokenizer/text_stream.c base/buffer.c $at_start; then
    echo "memory that runs out there would end the server: use the try-functions"
    exit 1
fi
