#!/bin/sh
# The demo -> runs/voices, in about six minutes: trained on with a code whose components are its five authors, then asked
# to go on from PROMPT as each of them. It is trained once: an interrupted training is resumed, a finished one left alone.
# shellcheck disable=SC2086
set -eu
corpus=runs/demo-corpus out=runs/voices authors="austen poe doyle melville sotu"
scripts/demo_corpus.sh $corpus

ids=
for author in $authors; do
    ids="$ids runs/voices-ids/$author"
    [ -d runs/voices-ids/$author ] ||
        build/noised-train tokenize --data $corpus/$author.txt --tokenizer weights/demo/tokenizer.json \
            --out runs/voices-ids/$author
done
build/noised-train pretrain --resume --out $out --init weights/demo --config scripts/voices.json --noise-assign source \
    --kl-weight 0 --window 32 --batch 32 --steps 1200 --warmup 120 --lr 1e-3 --save-every 200 --eval-every 0 --data $ids

component=0
for author in $authors; do
    printf '\n--- noise_component %d, %s ---\n' $component $author
    prompt=${PROMPT:-In the morning}
    build/noised-train sample --model $out --prompt "$prompt" --noise-component $component --seed 1 --noise-seed 1 \
        --temperature 0.5 --repetition-penalty 1.15 --max-tokens 50 2>/dev/null | fold -s -w 79
    component=$((component + 1))
done
printf '\nbuild/noised --model %s serves it: "noise_component" in a request, or the noise seed, chooses.\n' $out
