#!/bin/sh
# Holds the rooms apart: what each folder may include, and that no modules, a .c and its .h being one, include each
# other in a circle. And whatever serves requests allocates by the try-functions of base/memory.h, which end a request
# and not the server.
# Every include of ours is written from the top of the tree, so that a grep sees all of them.
set -eu
cd "$(dirname "$0")/.."
includes=$(git ls-files '*.[ch]' | xargs grep -H '^#include "' | sed 's/:#include "\(.*\)".*/ \1/')
echo "$includes" | awk '
    function allow(room, list) { allowed[room] = " " room " " list " " }
    function room_of(path, i) {
        for (i = 1; i <= n_rooms; i++) if (index(path, rooms[i] "/") == 1) return rooms[i]
        return "?"
    }
    BEGIN {
        # Deepest first, so that a path finds its own room. server/ itself joins http, api and engine.
        n_rooms = split("model/kernels model/attention model/ops server/gate server/http server/api server/engine server/metrics server/page " \
                        "base tokenizer model weights trainer server tests", rooms)
        model = "base model/kernels model/ops model/attention model"
        allow("base", "")
        allow("tokenizer", "base")
        allow("model/kernels", "base model")
        allow("model/ops", model)
        allow("model/attention", model)
        allow("model", model)
        allow("weights", "tokenizer " model)
        allow("trainer", "weights tokenizer " model)
        allow("server/gate", "base")
        allow("server/http", "server/gate base")
        allow("server/metrics", "base")
        allow("server/page", "base")
        allow("server/engine", "server/metrics weights tokenizer " model)
        allow("server/api", "server/http server/engine server/metrics weights tokenizer " model)
        allow("server", "server/page server/http server/api server/engine server/metrics weights tokenizer " model)
        allow("tests", "trainer server server/gate server/http server/api server/engine server/metrics weights tokenizer " model)
    }
    {
        from = room_of($1); to = room_of($2)
        if (!index(allowed[from], " " to " ")) { print $1 ": may not include " $2; bad = 1 }
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

# These make what is there before the first request, or a version that memory_survives loads.
at_start=$(printf ':!%s\n' server/main.c server/workers.c server/http/start.c \
    server/engine/crew.c server/engine/engine.c server/engine/kv_pool.c server/engine/runner.c \
    server/engine/scheduler.c)
if git grep -nE '\<(x(malloc|calloc|realloc|strdup|aligned)|memory_exhausted|malloc|calloc|realloc|strdup)\(' \
    -- 'server/*.c' tokenizer/encode.c tokenizer/merge.c tokenizer/diversity.c tokenizer/text_stream.c base/buffer.c $at_start; then
    echo "memory that runs out there would end the server: use the try-functions"
    exit 1
fi
