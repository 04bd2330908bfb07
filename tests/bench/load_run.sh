#!/bin/sh
# Starts build/noised on CHECKPOINT and prints the load generator's table for it. Without one: a 124M-shaped NoiseFormer
# of random weights, made once. URL2 is another server to put beside it in the same table, asked the same things in turns:
#     make bench-load URL2=http://127.0.0.1:8090 ARGS="--clients 8,16,32 --prompt-tokens 512"
# DAEMON_ARGS go to noised, ARGS to bench-load (bench-load --help).
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
model=${CHECKPOINT:-runs/bench-124m}
log=$(mktemp)

if [ -z "${CHECKPOINT:-}" ] && [ ! -e "$model/tokenizer.json" ]; then
    mkdir -p runs
    rm -rf "$model"
    "$build/bench-model" noiseformer-v2-124m bf16 "$model"
fi

# shellcheck disable=SC2086 # options are words
"$build/noised" --model "$model" --port 0 ${DAEMON_ARGS:-} >"$log" &
daemon=$!
trap 'kill $daemon 2>/dev/null; wait $daemon 2>/dev/null; rm -f "$log"' EXIT
trap 'exit 130' INT TERM
url=
until [ -n "$url" ] && "$build/noised" --probe "$url/health" 2>/dev/null; do
    kill -0 $daemon 2>/dev/null || exit 1
    sleep 0.1
    url=$(sed -n 's/.*\(http:[^ ]*\).*/\1/p' "$log")
done
# shellcheck disable=SC2086
"$build/bench-load" --url "${url%/}" ${URL2:+--url "$URL2"} ${ARGS:-}
