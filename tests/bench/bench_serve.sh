#!/bin/sh
# Tokens a second of the 124M shape, random weights: prefill of 512 and decoding of 1, 8 and 32 streams, ours in bf16 and
# int8 (and with V2's noise) and beside it PyTorch, if python3-torch is there, and llama.cpp, if LLAMA names the folder
# of its binaries; then a classifier of BERT-base's shape that reads 32 texts of 128 tokens at once, and PyTorch's. All
# take turns, ROUNDS times; the table has medians and their ratio to the first line.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
runs=runs/bench-serve
script=tests/bench/bench_serve.py
python=/usr/bin/python3
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
trap 'exit 130' INT TERM

tests/bench/bench_models.sh

# Not straight into sed: a pipe would hide that it failed.
noised() {
    timed=$("$build/bench-serve" 1 "$@")
    echo "$timed" | sed "s|^$runs/bert|bert-noised|; s|^$runs/|noised-|"
}

round() {
    noised prefill=512 decode=1 decode=8 decode=32 $runs/mha-bf16 $runs/mha-int8 $runs/noiseformer-v2-bf16
    if $python -c 'import torch' 2>/dev/null; then
        for dtype in f32 bf16; do
            $python $script torch $dtype
            noised read=32x128 $runs/bert-$dtype
            $python $script bert $dtype
        done
    fi
    if [ -n "${LLAMA:-}" ]; then
        for type in bf16 q8_0; do
            {
                "$LLAMA/llama-bench" -m $runs/gpt2-$type.gguf -p 512 -n 24 -r 1 -t 2
                [ ! -x "$LLAMA/llama-batched-bench" ] ||
                    "$LLAMA/llama-batched-bench" -m $runs/gpt2-$type.gguf -c 4096 -t 2 -npp 64 -ntg 24 -npl 8,32
            } 2>/dev/null | $python $script llama llama.cpp-$type
        done
    fi
}

i=0
while [ $i -lt "${ROUNDS:-3}" ]; do
    round >>"$lines"
    i=$((i + 1))
done
$python $script table "$lines"
