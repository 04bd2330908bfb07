#!/bin/sh
# demo.sh MODEL TEMPERATURE NOISE_SCALE PROMPT...: serves a checkpoint, answers the prompts with four noise seeds and the
# first of them again, and stays until Ctrl-C. PORT (8080, or the next free one; 0: any) and PROMPT, instead of them all,
# may come from the environment.
set -eu
usage="usage: demo.sh MODEL TEMPERATURE NOISE_SCALE PROMPT..."
model=${1:?$usage} temperature=${2:?$usage} scale=${3:?$usage}
: "${4:?$usage}"
shift 3
[ -z "${PROMPT:-}" ] || set -- "$PROMPT"
noised=${BUILD:-build}/noised

# Refused there is nobody; whatever else comes of it, somebody listens.
busy() {
    code=0
    curl -s -o /dev/null --noproxy '*' --max-time 1 "http://127.0.0.1:$1/" || code=$?
    [ $code != 7 ]
}
port=${PORT:-8080}
if [ -z "${PORT:-}" ]; then
    while [ $port -lt 8100 ] && busy $port; do port=$((port + 1)); done
    [ $port = 8080 ] || printf '\n*** Port 8080 is busy: this is port %d. PORT=N chooses another. ***\n' $port
fi

# The daemon says where it listens; whoever has another port is not asked.
files=$(mktemp -d)
"$noised" --model "$model" --port "$port" >"$files/out" 2>"$files/log" &
daemon=$!
trap 'kill $daemon 2>/dev/null && wait $daemon; rm -rf "$files"' EXIT
trap 'echo; exit 0' INT TERM
url=
until [ -n "$url" ] && "$noised" --probe "$url/health" 2>/dev/null; do
    kill -0 $daemon 2>/dev/null || { cat "$files/log" >&2; exit 1; }
    sleep 0.1
    url=$(sed -n 's/^listening on //p' "$files/out")
done

# As between the quotes of a JSON string.
json() { printf '%s' "$1" | sed 's/[\\"]/\\&/g; s/	/\\t/g' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }'; }
body() {
    printf '{"prompt":"%s","max_tokens":60,"temperature":%s,"seed":1,"repetition_penalty":1.15,"noise_scale":%s,"noise_seed":%d}' \
        "$(json "$2")" "$temperature" "$scale" "$1"
}
# ask SEED PROMPT: the text of an answer, its escapes as they came.
ask() {
    answer=$(body "$1" "$2" | curl -sS --noproxy '*' "$url/v1/completions" -H 'Content-Type: application/json' -d @-)
    text=$(printf '%s\n' "$answer" | sed -n 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p')
    [ -n "$text" ] || { printf '%s\n' "$answer" >&2; exit 1; }
}
# show PROMPT: the answer, up to the end of its last sentence, if it has one.
show() {
    sentences=$(printf '%s\n' "$text" | sed -n 's/^\(.*[.!?]\(\\"\)\{0,1\}\)\([^A-Za-z].*\)\{0,1\}$/\1/p')
    { printf '%s' "$1"
      printf '%b\n' "$(printf '%s' "${sentences:-$text}" | sed 's/\\"/"/g')"; } | fold -s -w 79
}

if [ "$temperature" = 0 ]; then
    printf '\nTemperature 0, noise_scale %s: only the noise is drawn.\n' "$scale"
else
    printf '\nTemperature %s, noise_scale %s: one "seed" for the tokens, four for the noise.\n' "$temperature" "$scale"
fi
for seed in 1 2 3 4; do
    printf '\n--- noise_seed %d ---\n' $seed
    for prompt; do
        ask $seed "$prompt"
        show "$prompt"
        [ "$seed$prompt" != "1$1" ] || first=$text
    done
done
ask 1 "$1"
printf '\n--- noise_seed 1 again ---\n'
show "$1"
if [ "$text" = "$first" ]; then
    printf '\nThe same seed gave the same bytes.\n'
else
    printf '\nThe same seed gave other bytes: this is a bug.\n'
    exit 1
fi
cat <<END
With "temperature" above 0 the tokens are drawn too, and "seed" repeats that.

The daemon is running at $url; Ctrl-C stops it:

  curl -N $url/v1/completions \\
    -d '{"prompt":"She looked","max_tokens":40,"noise_seed":1,"stream":true}'

Its log is $files/log.
END
wait $daemon || { cat "$files/log" >&2; exit 1; }
