#!/bin/sh
# places.sh RUNS DOCS: where a learned code may enter a network (scripts/diversity/places.py): the three books as ids, and
# the experiment. Interrupted, it goes on where it was.
set -eu
runs=${1:?usage: places.sh RUNS DOCS} docs=${2:?usage: places.sh RUNS DOCS}
build=${BUILD:-build} corpus=$(dirname "$runs")/corpus
mkdir -p "$runs" "$docs"
"$(dirname "$0")/corpus.sh" "$corpus"
set -- "$corpus/sherlock.txt" "$corpus/mobydick.txt" "$corpus/kjv.txt"
[ -f "$runs/tokenizer.json" ] || "$build/noised-train" tokenizer --vocab-size 1024 --out "$runs/tokenizer.json" --data "$@" >/dev/null
"$build/noised-train" tokenize --data "$@" --tokenizer "$runs/tokenizer.json" --out "$runs/ids" >&2
for row in train held_out; do cat "$runs/ids/$row"-*.ids >"$runs/$row.ids"; done
exec python3 "$(dirname "$0")/diversity/places.py" "$runs" "$docs"
