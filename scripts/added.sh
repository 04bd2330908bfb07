#!/bin/sh
# added.sh RUNS DOCS [MODEL...]: what noise is worth in models that were trained without. Each is given some and has a judge
# of another seed and kind (added.py); written into DOCS, added-MODEL.csv of each:
#   llama   132,000 parameters, plain attention of make papers-completions
#   gpt2    0.7 million, GPT-2's architecture, trained here on the same three books
#   demo    6.8 million, weights/demo without its own noise, and its authors
# Interrupted, it goes on where it was.
set -eu
usage="usage: added.sh RUNS DOCS [MODEL...]"
runs=${1:?$usage} docs=${2:?$usage}
shift 2
[ $# -gt 0 ] || set -- llama gpt2 demo
above=$(dirname "$runs") scripts=$(dirname "$0") build=${BUILD:-build}
books="$above/corpus/sherlock.txt $above/corpus/mobydick.txt $above/corpus/kjv.txt" authors=
for author in austen poe doyle melville sotu; do authors="$authors $above/demo-corpus/$author.txt"; done

# train NAME OPTION...
train() {
    name=$1
    shift
    "$build/noised-train" pretrain --resume --out "$runs/$name" --eval-every 0 "$@" | sed -u -n "s/^done/added: &/p" >&2
}

# learn NAME STEPS TEXTS OPTION...: a quarter is warm-up, as in codes.sh
learn() {
    name=$1 steps=$2 texts=$3
    shift 3
    # shellcheck disable=SC2086
    train "$name" --steps "$steps" --warmup $((steps / 4)) --batch 8 --lr 2e-3 "$@" --data $texts
}

# learn_judge MODEL VOCAB TOKENIZER TEXTS
learn_judge() {
    cat >"$runs/$1-judge.json" <<END
{"model_type":"noised", "vocab_size":$2, "hidden_size":128, "num_hidden_layers":3, "num_attention_heads":4, "head_dim":32,
 "max_position_embeddings":128, "norm":"rmsnorm", "position":"rope", "attention":{"kind":"mha"},
 "mlp":{"activation":"silu", "gated":true, "intermediate_size":344}}
END
    learn "$1-judge" 2000 "$4" --config "$runs/$1-judge.json" --tokenizer "$3" --seed 2
}

# measure MODEL FOLDER JUDGE TEXTS
measure() {
    # shellcheck disable=SC2086
    python3 "$scripts/diversity/added.py" --build "$build" --runs "$runs/$1" --out "$docs/added-$1.csv" --budget 0.05 \
        --model "$2" --judge "$3" --prompts 15 --samples 64 --tokens 60 --books $4
}

llama() {
    measure llama "$above/papers/completions/plain-attention-1" "$above/papers/completions/NoiseFormer-V1-1" "$books"
}

gpt2() {
    echo '{"model_type":"gpt2", "vocab_size":1024, "n_embd":128, "n_layer":3, "n_head":4, "n_positions":128}' >"$runs/gpt2.json"
    learn gpt2-model 4000 "$books" --config "$runs/gpt2.json" --vocab-size 1024 --seed 1
    learn_judge gpt2 1024 "$runs/gpt2-model/tokenizer.json" "$books"
    measure gpt2 "$runs/gpt2-model" "$runs/gpt2-judge" "$books"
}

# A step too small to move a weight leaves behind what the config has not.
demo() {
    "$scripts/demo_corpus.sh" "$above/demo-corpus" >&2
    sed '/"noise"/d' weights/demo/config.json >"$runs/demo.json"
    train demo-model --init weights/demo --config "$runs/demo.json" --save-dtype bf16 --steps 1 --batch 1 --lr 1e-30 --val none \
        --data "$above/demo-corpus/doyle.txt"
    learn_judge demo 4096 weights/demo/tokenizer.json "$authors"
    measure demo "$runs/demo-model" "$runs/demo-judge" "$authors"
}

mkdir -p "$runs"
"$scripts/corpus.sh" "$above/corpus" >&2
for model in "$@"; do "$model"; done
