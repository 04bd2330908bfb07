#!/bin/sh
# tokenized.sh TOKENIZER OUT TEXT...: every text as a folder of noised-train tokenize, OUT/<its name>, made where there is
# none; prints the folders.
set -eu
tokenizer=${1:?usage: tokenized.sh TOKENIZER OUT TEXT...} out=${2:?usage: tokenized.sh TOKENIZER OUT TEXT...}
shift 2
for text; do
    folder=$out/$(basename "$text" .txt)
    [ -d "$folder" ] || "${BUILD:-build}/noised-train" tokenize --data "$text" --tokenizer "$tokenizer" --out "$folder" >&2
    echo "$folder"
done
