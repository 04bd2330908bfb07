#!/bin/sh
# codes.sh RUNS DOCS: what a learned code for every seed is worth beside temperature. A network without noise learns three
# books; from there it is trained on in short windows, by the same steps without a code (plain) and with one of COMPONENTS
# components in each of two places (residual, query). A network of another kind and seed judges what they write. Writes
# DOCS/<the name of RUNS>.csv. Interrupted, it goes on where it was. SEEDS, ARMS (residual@1.2: at that noise_scale),
# COMPONENTS, STEPS (of the first network), PARTS (in which it is trained on, steps:window:batch:rate of each, and :pieces
# where every other window is read in such), ASSIGN (hard, balanced, or source: a component a book), SIGMA (from which
# those of a code start, with a KL weight of 1e-3), PROMPTS, TOKENS, EPOCHS (of the classifier), HELD_OUT (characters of a
# book's end whose loss is told), WINDOWS (that they are read in), OPTIONS (of pretrain, more) and CORPUS change the plan,
# for a RUNS of its own.
# CHECKPOINT (a folder) takes the place of the network of the first part; its noise is left behind. PLAN=demo is such a
# plan, of the demo and its texts; PLAN=works is another, with a component for each of sixteen parts of them, and where
# CHECKPOINT is empty a first part of their own.
set -eu
runs=${1:?usage: codes.sh RUNS DOCS} docs=${2:?usage: codes.sh RUNS DOCS}
scripts=$(dirname "$0")/diversity build=${BUILD:-build}

# demo_corpus MAKE: what the function MAKE prints of the demo's corpus, $corpus.
demo_corpus() {
    corpus=$(dirname "$runs")/demo-corpus
    "$(dirname "$0")/demo_corpus.sh" "$corpus" >&2
    "$1"
}
# The last megabyte of each text, and the addresses in lines as short as paragraphs, for beginnings are those of lines.
demo_texts() {
    mkdir -p "$runs/texts-of"
    for author in austen poe doyle melville sotu; do
        text=$runs/texts-of/$author.txt
        tail -c 1000000 "$corpus/$author.txt" | sed -e 1d -e 's/\(.\{500\}[^.]*\.\) /\1\n/g' >"$text"
        echo "$text"
    done
}
demo_works() { "$(dirname "$0")/demo_works.sh" "$corpus" "$runs/works"; }
if [ "${PLAN:-}" = works ]; then
    : "${CHECKPOINT=weights/demo}" "${ARMS:=plain residual residual@1.2}" "${ASSIGN:=source}" "${SIGMA:=0.02}"
    : "${PARTS:=1200:32:64:1e-3}" "${PROMPTS:=32}" "${HELD_OUT:=7000}" "${WINDOWS:=512}" "${STEPS:=1000}"
    : "${CORPUS:=$(demo_corpus demo_works)}" "${OPTIONS:=--precision bf16}"
fi
if [ "${PLAN:-}" = demo ]; then
    : "${CHECKPOINT:=weights/demo}" "${SEEDS:=1}" "${STEPS:=1000}"
    : "${PARTS:=300:32:32:1e-3}" "${ASSIGN:=balanced}" "${PROMPTS:=30}" "${HELD_OUT:=16000}" "${WINDOWS:=32 128 512}"
    : "${CORPUS:=$(demo_corpus demo_texts)}"
fi
seeds=${SEEDS:-1 2 3} arms=${ARMS:-plain residual query} components=${COMPONENTS:-8} model=${CHECKPOINT:-} books=${CORPUS:-}
steps=${STEPS:-400} parts=${PARTS:-200:32:32:2e-3}

# of ATTENTION: the network of the first part, and the judge.
write_small() {
    cat <<END
{"model_type":"noised", "vocab_size":$vocab, "hidden_size":128, "num_hidden_layers":3, "num_attention_heads":4,
 "head_dim":32, "max_position_embeddings":128, "norm":"rmsnorm", "norm_eps":1e-6, "position":"rope",
 "mlp":{"activation":"silu", "gated":true, "intermediate_size":344}, "attention":{"kind":"$1"}}
END
}

# of CONFIG ARM: the same network with the code of the arm, or without any.
write_arm() {
    python3 - "$@" "$components" <<'END'
import json, sys
path, arm, components = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    config = json.load(f)
config.pop("noise", None)
if arm != "plain":
    config["noise"] = {"density": "mixture", "span": "sequence", "components": int(components), "site": arm,
                       "scope": "layer" if arm == "residual" else "head"}
json.dump(config, sys.stdout)
END
}

# The lines of a plan, NAME OPTION..., on one thread each, as many at a time as there are processors.
train() {
    # shellcheck disable=SC2086
    sed "s|^[^ ]*|--out $runs/&|" | OMP_NUM_THREADS=1 xargs -r -P "${JOBS:-$(nproc)}" -L 1 "$build/noised-train" pretrain \
        --resume --eval-every 0 --threads 1 --data $data | sed -u -n "s/^done/codes: &/p" >&2
}

mkdir -p "$runs/configs" "$runs/texts" "$docs"
exec 9>"$runs/lock"
flock -n 9 || { echo "codes: another codes.sh is at work in $runs" >&2; exit 1; }
if [ -z "$books" ]; then
    corpus=$(dirname "$runs")/corpus
    "$(dirname "$0")/corpus.sh" "$corpus"
    books="$corpus/sherlock.txt $corpus/mobydick.txt $corpus/kjv.txt"
fi
tokenizer=$runs/tokenizer.json vocab=1024 data=$books
if [ -n "$model" ]; then
    cp "$model/tokenizer.json" "$tokenizer"
    vocab=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["vocab_size"])' "$model/config.json")
fi
# shellcheck disable=SC2086
[ -f "$tokenizer" ] || "$build/noised-train" tokenizer --vocab-size $vocab --out "$tokenizer" --data $books >/dev/null
write_small mha >"$runs/configs/judge.json"
write_small symmetric >"$runs/configs/base.json"
# first NAME STEPS: the judge learns for twice as long. A quarter is warm-up: with less, some runs stay for long where
# attention looks at its own token alone.
first() {
    echo "$1 --config $runs/configs/${1%-*}.json --tokenizer $tokenizer --seed ${1#*-} --steps $2 --warmup $(($2 / 4)) --batch 8" \
        "--lr 2e-3"
}
{
    first judge-0 $((2 * steps))
    for seed in $seeds; do
        if [ -n "$model" ]; then ln -sfn "$(realpath "$model")" "$runs/base-$seed"; else first "base-$seed" "$steps"; fi
    done
} | train
# Books that are to be told apart are folders, as many as there are components.
if [ "${ASSIGN:-}" = source ]; then
    # shellcheck disable=SC2086
    data=$("$(dirname "$0")/tokenized.sh" "$tokenizer" "$runs/sources" $books)
    components=$(echo "$books" | wc -w)
fi
# Every part from where the one before it ended; the last has the plain name.
part=0 last=$(echo "$parts" | wc -w)
for plan in $parts; do
    part=$((part + 1))
    IFS=: read -r more window batch rate pieces <<END
$plan
END
    for seed in $seeds; do
        for arm in $(printf '%s\n' $arms | sed 's/@.*//' | sort -u); do
            from=$arm-$seed-part$((part - 1)) name=$arm-$seed-part$part
            [ $part = 1 ] && from=base-$seed
            code="--noise-assign ${ASSIGN:-hard} --kl-weight ${SIGMA:+1e-3 --sigma-start }${SIGMA:-0}"
            [ $arm = plain ] && code=
            [ $part = "$last" ] && name=$arm-$seed
            write_arm "$runs/base-$seed/config.json" "$arm" >"$runs/configs/$arm.json"
            echo "$name --init $runs/$from --config $runs/configs/$arm.json --seed $seed --steps $more --window $window" \
                "--batch $batch --lr $rate --warmup $((more / 10)) $code ${OPTIONS:-} --pieces ${pieces:-0}"
        done
    done | train
done
# A classifier of the books, from the judge's weights.
# shellcheck disable=SC2086
python3 "$scripts/passages.py" "$runs/passages.jsonl" "$runs/held-out.jsonl" $books
"$build/noised-train" finetune --train "$runs/passages.jsonl" --dev "$runs/held-out.jsonl" --init "$runs/judge-0" --pool mean \
    --epochs "${EPOCHS:-2}" --truncate --out "$runs/reader" --resume | sed -u -n 's/^done/codes: reader &/p' >&2
# shellcheck disable=SC2086
python3 "$scripts/codes.py" --build "$build" --runs "$runs" --out "$docs" --books $books \
    --arms $arms --seeds $seeds --components "$components" --prompts "${PROMPTS:-36}" --tokens "${TOKENS:-64}" \
    --held-out "${HELD_OUT:-40000}" --windows ${WINDOWS:-32 128}
echo "codes: wrote $docs/$(basename "$runs").csv" >&2
