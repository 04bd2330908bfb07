#!/bin/sh
# Three books -> a trained NoiseFormer in runs/noiseformer-v2, in about three minutes. It is trained once: an interrupted
# training is resumed, a finished one left alone.
set -eu
model=runs/noiseformer-v2
scripts/corpus.sh runs/corpus
if [ -f "$model/trainer_state.json" ]; then
    build/noised-train pretrain --resume --out "$model"
else
    rm -rf "$model"
    build/noised-train pretrain --config noiseformer-v2-tiny --out "$model" --steps "${STEPS:-800}" --batch 8 --lr 3e-3 \
        --data runs/corpus/sherlock.txt runs/corpus/mobydick.txt runs/corpus/kjv.txt
fi
