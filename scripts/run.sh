#!/bin/sh
# The whole path in one go: books -> trained NoiseFormer -> daemon -> two streams of one prompt with two noise seeds.
# The model is trained once (an interrupted training is resumed) and kept in runs/; later calls serve it at once.
set -eu
cd "$(dirname "$0")/.."
model=runs/noiseformer-v2
port=${PORT:-8080}
prompt=${PROMPT:-And it came to pass}

scripts/corpus.sh runs/corpus
if [ -f "$model/trainer_state.json" ]; then
    build/noised-train pretrain --resume --out "$model"
else
    rm -rf "$model"
    build/noised-train pretrain --config noiseformer-v2-tiny --out "$model" --steps "${STEPS:-800}" --batch 8 --lr 3e-3 \
        --data runs/corpus/sherlock.txt runs/corpus/mobydick.txt runs/corpus/kjv.txt
fi

build/noised --model "$model" --port "$port" &
daemon=$!
trap 'kill $daemon 2>/dev/null' INT TERM
until build/noised --probe "http://127.0.0.1:$port/health" 2>/dev/null; do
    kill -0 $daemon 2>/dev/null || exit 1
    sleep 0.1
done

# Prints the text of a stream of events as it arrives.
show() {
    sed -u -n 's/^data: .*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p' | while IFS= read -r text; do printf '%b' "$text"; done
    echo
}
for noise_seed in 1 2; do
    printf '\n--- "%s", seed 7, noise_seed %s ---\n%s' "$prompt" $noise_seed "$prompt"
    curl -sN "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' -d "{\"prompt\":\"$prompt\",
        \"max_tokens\":80,\"temperature\":0.8,\"top_k\":50,\"seed\":7,\"noise_seed\":$noise_seed,\"stream\":true}" | show
done
cat <<END

The daemon is running; Ctrl-C stops it. Every answer reports its seeds, and the same seeds give the same bytes:

  curl -N http://127.0.0.1:$port/v1/completions -d '{"prompt":"Call me","max_tokens":40,"seed":7,"noise_seed":1,"stream":true}'

END
wait $daemon
