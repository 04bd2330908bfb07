#!/bin/sh
# Trains the checkpoint of weights/demo again, into runs/demo: first with the noise of a query and a key, which hardly
# acts; on from there with a noise that lasts the whole sequence; and last with a code of sixteen components, which are
# works of its authors. Begun at once, either would cost loss. Interrupted, it goes on where it was.
# shellcheck disable=SC2046,SC2086
set -eu
corpus=runs/demo-corpus first=runs/demo-first second=runs/demo-second out=runs/demo
scripts/demo_corpus.sh $corpus

# config NOISE: the demo's, with another noise.
config() { sed "s/\"noise\": {.*}/\"noise\": $1/" weights/demo/config.json; }
# train OPTION...
train() { "${BUILD:-build}/noised-train" pretrain --resume --seed 1 --save-dtype bf16 "$@"; }
texts="$corpus/austen.txt $corpus/poe.txt $corpus/doyle.txt $corpus/melville.txt $corpus/sotu.txt"

config '{"scope": "head", "density": "gaussian"}' >runs/demo-first.json
train --out $first --config runs/demo-first.json --vocab-size 4096 --batch 4 --steps 7000 --lr 2.5e-3 --min-lr 1e-4 \
    --warmup 200 --eval-every 500 --save-every 500 --data $texts
config '{"scope": "head", "density": "gaussian", "span": "sequence"}' >runs/demo-second.json
train --out $second --init $first --config runs/demo-second.json --noise-per-sequence --kl-weight 1e-2 --sigma-start 1 \
    --noise-warmup 500 --batch 4 --steps 2400 --lr 1e-3 --min-lr 5e-5 --warmup 200 --eval-every 200 --save-every 200 \
    --data $texts

ids=$(scripts/tokenized.sh $second/tokenizer.json runs/demo-ids $(scripts/demo_works.sh $corpus runs/demo-works))
train --out $out --init $second --config weights/demo/config.json --noise-assign source --sigma-start 0.02 --kl-weight 1e-3 \
    --window 32 --batch 64 --steps 1200 --lr 1e-3 --warmup 120 --eval-every 0 --precision bf16 --data $ids
