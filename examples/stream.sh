#!/bin/sh
# Streams an answer by curl: stream.sh [URL]
url=${1:-http://localhost:8080}
curl -sN "$url/v1/completions" -d '{"prompt":"It was","max_tokens":40,"seed":7,"noise_seed":1,"stream":true}' |
    sed -u -e '/"text":/!d' -e 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/' -e 's/\\"/"/g' |
    while IFS= read -r text; do printf '%b' "$text"; done # the escapes of JSON, as far as printf has them
echo
