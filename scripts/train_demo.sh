#!/bin/sh
# Trains the checkpoint of weights/demo again, into runs/demo: first with the noise of a query and a key, which hardly
# acts, then on from there with a noise that lasts the whole sequence, whose sigmas start where it does. Begun at once,
# that noise would cost loss. Interrupted, it goes on where it was.
set -eu
corpus=runs/demo-corpus first=runs/demo-first out=runs/demo
scripts/demo_corpus.sh $corpus

# train OPTION...
train() {
    build/noised-train pretrain --resume --seed 1 --save-dtype bf16 --batch 4 "$@" --data $corpus/austen.txt \
        $corpus/poe.txt $corpus/doyle.txt $corpus/melville.txt $corpus/sotu.txt
}

sed 's/, "span": "sequence"//' weights/demo/config.json >runs/demo-first.json
train --out $first --config runs/demo-first.json --vocab-size 4096 --steps 7000 --lr 2.5e-3 --min-lr 1e-4 --warmup 200 \
    --eval-every 500 --save-every 500
train --out $out --init $first --config weights/demo/config.json --noise-per-sequence --kl-weight 1e-2 --sigma-start 1 \
    --noise-warmup 500 --steps 2400 --lr 1e-3 --min-lr 5e-5 --warmup 200 --eval-every 200 --save-every 200
