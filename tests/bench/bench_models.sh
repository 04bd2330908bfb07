#!/bin/sh
# Makes, where they are missing, the models that are timed, of random weights, in runs/bench-serve: the 124M shape of GPT-2
# in f32, bf16, int8 and int4, NoiseFormer-V2 of that size, BERT-base's shape, and if LLAMA names the folder of
# llama.cpp's binaries the same GPT-2 for it.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
runs=runs/bench-serve
python=/usr/bin/python3
mkdir -p $runs

make_model() {
    [ -e "$runs/$3/tokenizer.json" ] || "$build/bench-model" "$1" "$2" "$runs/$3"
}

quantize() {
    [ -e "$runs/$3/tokenizer.json" ] || "$build/noised-weights" quantize --dtype "$1" "$runs/$2" "$runs/$3" >&2
}

make_model mha-124m f32 mha-f32
make_model mha-124m bf16 mha-bf16
make_model noiseformer-v2-124m bf16 noiseformer-v2-bf16
cat >$runs/bert.json <<'JSON'
{"model_type": "noised", "task": "text-classification", "causal": false, "pool": "first", "vocab_size": 30522,
 "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64,
 "max_position_embeddings": 512, "norm": "layernorm", "position": "learned", "bias": true,
 "mlp": {"activation": "gelu", "intermediate_size": 3072}, "attention": {"kind": "mha"},
 "id2label": {"0": "NEG", "1": "POS"}}
JSON
for dtype in f32 bf16; do
    make_model $runs/bert.json $dtype bert-$dtype
done
quantize int8 mha-bf16 mha-int8
quantize int4 mha-bf16 mha-int4
[ -n "${LLAMA:-}" ] || exit 0
[ -e $runs/gpt2-bf16.gguf ] || $python tests/bench/bench_serve.py gguf $runs/mha-bf16/tokenizer.json $runs/gpt2-bf16.gguf
for type in q8_0 q4_0; do
    [ -e $runs/gpt2-$type.gguf ] || "$LLAMA/llama-quantize" --pure $runs/gpt2-bf16.gguf $runs/gpt2-$type.gguf $type >&2
done
