#!/bin/sh
# Trains the checkpoint of weights/demo again, into runs/demo. Interrupted, it goes on where it was.
set -eu
corpus=runs/demo-corpus out=runs/demo
scripts/demo_corpus.sh $corpus
if [ -f $out/trainer_state.json ]; then
    build/noised-train pretrain --resume --out $out
else
    build/noised-train pretrain --config weights/demo/config.json --vocab-size 4096 --out $out --seed 1 --save-dtype bf16 \
        --steps 7000 --batch 4 --lr 2.5e-3 --min-lr 1e-4 --warmup 200 --eval-every 500 --save-every 500 \
        --data $corpus/austen.txt $corpus/poe.txt $corpus/twain.txt $corpus/doyle.txt $corpus/melville.txt $corpus/sotu.txt
fi
