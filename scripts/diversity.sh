#!/bin/sh
# diversity.sh RUNS DOCS: what a noise seed is good for. Trains the forms of noise of docs/noise.md and a model without
# any on the three books, has each write many texts under many seeds, by noise and by temperature, and lets another
# model judge them: how good the texts are against how much they differ, and how much they sound like one book. Writes
# frontier.csv, frontier.svg and table.md into DOCS. Interrupted, it goes on where it was. STEPS, HIDDEN, LAYERS, VOCAB,
# PROMPTS, SAMPLES, TOKENS, EPOCHS (of the classifier), MEMBERS and CORPUS (two files or more, instead of the books)
# change the plan, for a RUNS of its own. CHECKPOINT (a folder) takes the place of all members: its noise is held against
# its own temperature, and the judge is trained with its tokenizer.
set -eu
runs=${1:?usage: diversity.sh RUNS DOCS} docs=${2:?usage: diversity.sh RUNS DOCS}
scripts=$(dirname "$0")/diversity build=${BUILD:-build}
books=${CORPUS:-} model=${CHECKPOINT:-}
steps=${STEPS:-1600} prompts=${PROMPTS:-16} samples=${SAMPLES:-64} tokens=${TOKENS:-60}
hidden=${HIDDEN:-128} layers=${LAYERS:-3} vocab=${VOCAB:-1024} batch=8 lr=2e-3

# name|switches of config.json|flags of the trainer. `judge` is another kind of another seed; `none` has no noise, and
# its temperature is what every noise is held against, beside the noise's own model. With a KL weight of 1e-2 sigma grows
# towards 1.
members() {
    cat <<END
judge|"attention":{"kind":"mha"}|--seed 2
none|"attention":{"kind":"symmetric"}|
pair|"attention":{"kind":"symmetric"},"noise":{"scope":"head"}|--noise-per-sequence
pair-strong|"attention":{"kind":"symmetric"},"noise":{"scope":"head"}|--noise-per-sequence --kl-weight 1e-2
key|"attention":{"kind":"symmetric"},"noise":{"scope":"head","span":"key"}|--noise-per-sequence --kl-weight 1e-2
sequence|"attention":{"kind":"symmetric"},"noise":{"scope":"head","span":"sequence"}|--noise-per-sequence --kl-weight 1e-2
sequence-start1|"attention":{"kind":"symmetric"},"noise":{"scope":"head","span":"sequence"}|--noise-per-sequence --kl-weight 1e-2 --sigma-start 1 --noise-warmup $((steps / 4))
sequence-draws4|"attention":{"kind":"symmetric"},"noise":{"scope":"head","span":"sequence"}|--noise-draws 4 --kl-weight 1e-2
sequence-best4|"attention":{"kind":"symmetric"},"noise":{"scope":"head","span":"sequence"}|--noise-draws 4 --noise-draws-weight best --kl-weight 1e-2
sequence-draws8|"attention":{"kind":"symmetric"},"noise":{"scope":"head","span":"sequence"}|--noise-draws 8 --kl-weight 1e-2
mixture|"attention":{"kind":"symmetric"},"noise":{"scope":"head","density":"mixture","components":4}|--noise-per-sequence --kl-weight 1e-2
conditioned|"attention":{"kind":"symmetric"},"noise":{"scope":"head","conditioned":true,"condition_dim":16}|--noise-per-sequence --kl-weight 1e-2
END
}

# MEMBERS names some of them; the judge and the model without noise are always there, but not beside a CHECKPOINT.
chosen() {
    members | while IFS='|' read -r name rest; do
        case " judge ${model:-none ${MEMBERS:-$name}} " in *" $name "*) echo "$name|$rest" ;; esac
    done
}

writers() { if [ -n "$model" ]; then echo none model; else chosen | cut -d'|' -f1 | grep -vx judge; fi; }

# Without its noise, the model is what its noise is held against.
take_model() {
    for name in none model; do ln -sfn "$(realpath "$model")" "$runs/$name"; done
    cp "$model/tokenizer.json" "$runs/tokenizer.json"
    vocab=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["vocab_size"])' "$model/config.json")
}

say() { echo "diversity: $*" >&2; }

write_config() {
    cat <<END
{"model_type":"noised", "vocab_size":$vocab, "hidden_size":$hidden, "num_hidden_layers":$layers,
 "num_attention_heads":4, "head_dim":$((hidden / 4)), "max_position_embeddings":128, "norm":"rmsnorm", "norm_eps":1e-6,
 "position":"rope", "mlp":{"activation":"silu", "gated":true, "intermediate_size":$((hidden * 43 / 16))}, $1}
END
}

# On one thread each, as many at a time as there are processors. A quarter of the steps is warm-up: with less, some runs
# stay for long where attention looks at its own token alone.
train_all() {
    chosen | while IFS='|' read -r name switches flags; do
        write_config "$switches" >"$runs/configs/$name.json"
        echo "--config $runs/configs/$name.json $flags --out $runs/$name"
    done >"$runs/plan"
    # shellcheck disable=SC2086
    OMP_NUM_THREADS=1 xargs -P "${JOBS:-$(nproc)}" -L 1 "$build/noised-train" pretrain --resume --steps "$steps" \
        --batch $batch --lr $lr --warmup $((steps / 4)) --eval-every "$steps" --tokenizer "$runs/tokenizer.json" \
        --data $books <"$runs/plan" | sed -u -n 's/^done/diversity: &/p' >&2
}

# A classifier of the books, from the judge's weights: what a half or a whole text sounds like.
train_reader() {
    # shellcheck disable=SC2086
    python3 "$scripts/passages.py" "$runs/passages.jsonl" "$runs/held-out.jsonl" $books
    "$build/noised-train" finetune --train "$runs/passages.jsonl" --dev "$runs/held-out.jsonl" --init "$runs/judge" \
        --pool mean --epochs "${EPOCHS:-4}" --truncate --out "$runs/reader" --resume | sed -u -n 's/^done/diversity: &/p' >&2
}

mkdir -p "$runs/configs" "$runs/texts" "$docs"
exec 9>"$runs/lock"
flock -n 9 || { say "another diversity.sh, or a training that it left behind, is at work in $runs"; exit 1; }
if [ -z "$books" ]; then
    corpus=$(dirname "$runs")/corpus
    "$(dirname "$0")/corpus.sh" "$corpus"
    books="$corpus/sherlock.txt $corpus/mobydick.txt $corpus/kjv.txt"
fi
# shellcheck disable=SC2086
set -- $books
[ $# -ge 2 ] || { say "CORPUS names $# file, the classifier needs two to tell apart"; exit 1; }
[ -z "$model" ] || take_model
# shellcheck disable=SC2086
[ -f "$runs/tokenizer.json" ] ||
    "$build/noised-train" tokenizer --vocab-size "$vocab" --out "$runs/tokenizer.json" --data $books >/dev/null
train_all
train_reader
# shellcheck disable=SC2046,SC2086
python3 "$scripts/ask.py" --noised "$build/noised" --runs "$runs" --books $books --prompts "$prompts" \
    --samples "$samples" --tokens "$tokens" --members $(writers)
new=$runs/documents
mkdir -p "$new"
python3 "$scripts/measure.py" "$runs" "$new"
python3 "$scripts/draw.py" "$new/frontier.csv" >"$new/frontier.svg"
mv "$new"/* "$docs/"
say "wrote $docs/frontier.csv, $docs/frontier.svg and $docs/table.md"
