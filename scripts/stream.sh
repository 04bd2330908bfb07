#!/bin/sh
# stream.sh MODEL PROMPT: serves a checkpoint, streams the prompt with two noise seeds, and stays until Ctrl-C.
set -eu
model=${1:?usage: stream.sh MODEL PROMPT} prompt=${2:?usage: stream.sh MODEL PROMPT}
port=${PORT:-8080}

build/noised --model "$model" --port "$port" &
daemon=$!
trap 'kill $daemon 2>/dev/null' INT TERM
until build/noised --probe "http://127.0.0.1:$port/health" 2>/dev/null; do
    kill -0 $daemon 2>/dev/null || exit 1
    sleep 0.1
done

# Prints the text of a stream of events as it arrives.
show() {
    sed -u -n -e '/^data: .*"text":/!d' -e 's/^data: .*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/' -e 's/\\"/"/g' -e p |
        while IFS= read -r text; do printf '%b' "$text"; done
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
