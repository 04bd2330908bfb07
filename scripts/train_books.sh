#!/bin/sh
# Three books -> a trained NoiseFormer in runs/books, in about five minutes: first with noise of its own for every window,
# then on from there under the likeliest of four, in windows so short that it pays to give each book noises of its own.
# It is trained once: an interrupted training is resumed, a finished one left alone.
set -eu
corpus=runs/corpus first=runs/books-first tokenizer=runs/books-tokenizer.json
books="$corpus/sherlock.txt $corpus/mobydick.txt $corpus/kjv.txt"
scripts/corpus.sh $corpus
# shellcheck disable=SC2086
[ -f $tokenizer ] || "${BUILD:-build}/noised-train" tokenizer --vocab-size 1024 --out $tokenizer --data $books

# train OPTION...
train() {
    # shellcheck disable=SC2086
    "${BUILD:-build}/noised-train" pretrain --resume --lr 2e-3 --kl-weight 1e-2 --save-every 200 --data $books "$@"
}

train --out $first --config scripts/books.json --tokenizer $tokenizer --noise-per-sequence --steps 1600 --batch 8 \
    --warmup 400
train --out runs/books --init $first --noise-draws 4 --noise-draws-weight best --steps 800 --window 32 --batch 32 \
    --warmup 80
