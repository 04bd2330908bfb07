#!/bin/sh
# family.sh RUNS DOCS: trains every member of the family on the three books, at equal parameters, data, tokens and seeds,
# in the folder RUNS, and writes the comparison into DOCS: table.md, loss-curves.svg and the numbers behind them,
# members.csv, curves.csv, timing.csv. Interrupted, it goes on where it was; what is finished is not trained again.
# STEPS and SEEDS change the plan, for a RUNS of its own.
set -eu
runs=${1:?usage: family.sh RUNS DOCS} docs=${2:?usage: family.sh RUNS DOCS}
scripts=$(dirname "$0") build=${BUILD:-build}
awk=$scripts/family corpus=$(dirname "$runs")/corpus
books="$corpus/sherlock.txt $corpus/mobydick.txt $corpus/kjv.txt"
steps=${STEPS:-800} seeds=${SEEDS:-1 2 3} batch=8 lr=4e-3 rounds="1 2 3 4 5"

# The one base, in Llama's style, that all members are made from: mha of this shape sets the number of parameters.
hidden=96 layers=2 positions=128 vocab=1024 head_dim=16 width=256

# name|heads|key and value heads|switches of config.json|flags of the trainer. Heads and ranks follow the papers: those
# of gqa, mqa, mla and tpa give their attention about the parameters of mha's; SAS has 3 H heads of 1.5 D and kernel 5.
members() {
    cat <<'END'
mha|6|6|"attention":{"kind":"mha"}|
gqa|10|2|"attention":{"kind":"gqa"}|
mqa|11|1|"attention":{"kind":"gqa"}|
symmetric|6|6|"attention":{"kind":"symmetric"}|
noiseformer-v1|6|6|"attention":{"kind":"symmetric"},"noise":{"scope":"layer"}|
noiseformer-v2|6|6|"attention":{"kind":"symmetric"},"noise":{"scope":"head"}|
mixture-noise|6|6|"attention":{"kind":"symmetric"},"noise":{"scope":"head","density":"mixture","components":4}|
conditioned-noise|6|6|"attention":{"kind":"symmetric"},"noise":{"scope":"head","conditioned":true,"condition_dim":16}|
pairwise|6|6|"attention":{"kind":"pairwise"}|
mla|7|7|"attention":{"kind":"mla","q_lora_rank":64,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16}|
tpa|9|9|"attention":{"kind":"tpa","q_rank":6,"rank":2}|
sas|6|6|"attention":{"kind":"mha"},"sas":{"heads":18,"head_dim":24,"kernel":5}|
noble|6|6|"attention":{"kind":"mha"},"noble":{"rank":12}|
v2+sas+noble|6|6|"attention":{"kind":"symmetric"},"noise":{"scope":"head"},"sas":{"heads":18,"head_dim":24,"kernel":5},"noble":{"rank":12}|
weight-noise|6|6|"attention":{"kind":"mha"}|--perturb layer-before --perturb-sigma 0.003
END
}

# name|what its paper says, in the table's unit where it can be converted
claims() {
    cat <<'END'
mha|the baseline of all
gqa|0.000 (Books3, ppl 29.80 → 29.81)
mqa|+0.012 (Books3, ppl 29.80 → 30.15)
symmetric|about +0.07 (3.077, base "a little above 3.0")
noiseformer-v1|about +0.11 (3.115); symmetric +0.038
noiseformer-v2|about +0.06 (3.069); symmetric −0.008
mixture-noise|named, no numbers
conditioned-noise|named, no numbers
pairwise|better than mha (GLUE 78.74 → 79.36), 6% fewer parameters
mla|+0.012 (Books3, ppl 29.80 → 30.17)
tpa|+0.019 (Books3, ppl 29.80 → 30.38)
sas|−0.049 (Books3, ppl 29.80 → 28.37), step ×1.88
noble|−0.040 (2.850 → 2.810 with 5.7% more parameters), step ×1.076
v2+sas+noble|nobody combined them
weight-noise|little change, except narrow classifiers: about +20% accuracy
END
}


say() { echo "family: $*" >&2; }

# A short run on a short text, for what the programs say of it.
probe() {
    rm -rf "$runs/probe"
    OMP_NUM_THREADS=1 "$build/noised-train" pretrain --data "$runs/short.txt" --val none --batch $batch --lr $lr \
        --tokenizer "$runs/tokenizer.json" --out "$runs/probe" "$@" >/dev/null
}

# write_config MLP_WIDTH HEADS KV_HEADS SWITCHES
write_config() {
    cat <<END
{"model_type":"noised", "vocab_size":$vocab, "hidden_size":$hidden, "num_hidden_layers":$layers,
 "num_attention_heads":$2, "num_key_value_heads":$3, "head_dim":$head_dim, "max_position_embeddings":$positions,
 "norm":"rmsnorm", "norm_eps":1e-6, "position":"rope", "mlp":{"activation":"silu", "gated":true, "intermediate_size":$1},
 $4}
END
}

# inspect_config, arguments as above: "PARAMETERS KV_BYTES COMPACT_KV_BYTES", the first cache in the form that serving takes
# by default; they are equal where that is the compact one.
inspect_config() {
    write_config "$@" >"$runs/probe.json"
    probe --config "$runs/probe.json" --steps 1
    "$build/noised-weights" inspect "$runs/probe" | awk '
        /^parameters:/ { n = $2 }
        /^KV cache per token/ && match($0, /[0-9]+ bytes in F32/) {
            bytes = substr($0, RSTART, RLENGTH) + 0
            if (/\(default\)/) kv = bytes
            if (/compact/) compact = bytes
        }
        END { print n, kv, compact ? compact : kv }'
}

parameters() { inspect_config "$@" | cut -d' ' -f1; }

# The width of the MLP takes up what a member's attention has more or less than mha's; parameters are linear in it.
make_configs() {
    target=$(parameters $width 6 6 '"attention":{"kind":"mha"}')
    echo "member,parameters,mlp_width,kv_bytes_per_token,kv_bytes_per_token_compact" >"$runs/members.csv"
    members | while IFS='|' read -r name heads kv_heads switches _; do
        at=$(parameters $width "$heads" "$kv_heads" "$switches")
        next=$(parameters $((width + 1)) "$heads" "$kv_heads" "$switches")
        fitted=$((width + (2 * (target - at) + next - at) / (2 * (next - at))))
        write_config $fitted "$heads" "$kv_heads" "$switches" >"$runs/configs/$name.json"
        # shellcheck disable=SC2046
        set -- $(inspect_config $fitted "$heads" "$kv_heads" "$switches")
        off=$((1000 * ($1 - target) / target))
        [ $off -ge -10 ] && [ $off -le 10 ] || { say "$name has $1 parameters, mha $target: not within 1%"; exit 1; }
        echo "$name,$1,$fitted,$2,$3" >>"$runs/members.csv"
    done
}

# One line of arguments a run; a whole seed before the next.
plan() {
    for seed in $seeds; do
        members | while IFS='|' read -r name _ _ _ flags; do
            echo "--config $runs/configs/$name.json $flags --seed $seed --out $runs/$name.$seed"
        done
    done
}

# As many runs at a time as there are processors, on one thread each: small matrices do not profit from a second.
train_all() {
    # shellcheck disable=SC2086
    plan | OMP_NUM_THREADS=1 xargs -P "$(nproc)" -L 1 "$build/noised-train" pretrain --resume --steps "$steps" \
        --batch $batch --lr $lr --eval-every $((steps / 20)) --tokenizer "$runs/tokenizer.json" --data $books |
        sed -u -n 's/^done/family: &/p' >&2
}

# Alone on the machine, member after member, round after round, so that a slow minute hits all of them.
time_all() {
    for round in $rounds; do
        members | while IFS='|' read -r name _ _ _ flags; do
            log=$runs/timing/$name.$round.jsonl
            [ -f "$log" ] && continue
            # shellcheck disable=SC2086
            probe --config "$runs/configs/$name.json" --steps 12 $flags
            mv "$runs/probe/log.jsonl" "$log"
        done
    done
}

# logs FOLDER NUMBERS SUFFIX: the logs of all members.
logs() { members | while IFS='|' read -r name _; do for i in $2; do echo "$1/$name.$i$3"; done; done; }

# Nothing in DOCS changes before everything is there.
write_documents() {
    new=$runs/documents
    machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1) with $(nproc) processors"
    mkdir -p "$new"
    cp "$runs/members.csv" "$new"
    logs "$runs" "$seeds" /log.jsonl |
        xargs awk -v steps="$steps" -f "$awk/common.awk" -f "$awk/curves.awk" >"$new/curves.csv"
    logs "$runs/timing" "$rounds" .jsonl |
        xargs awk -v tokens=$((batch * positions)) -f "$awk/common.awk" -f "$awk/timing.awk" >"$new/timing.csv"
    claims | awk -F, -v machine="$machine" -v steps="$steps" -v batch=$batch -v positions=$positions -v lr=$lr \
        -v shape="vocabulary $vocab, width $hidden, $layers layers, heads of $head_dim, context $positions" \
        -f "$awk/common.awk" -f "$awk/table.awk" "$new/members.csv" "$new/timing.csv" "$new/curves.csv" 'FS=|' - \
        >"$new/table.md"
    "$build/noised-train" plot "$new/curves.csv" --out "$new/loss-curves.svg" >/dev/null
    mv "$new"/* "$docs/"
    say "wrote $docs/table.md and $docs/loss-curves.svg"
}

mkdir -p "$runs/configs" "$runs/timing" "$docs"
exec 9>"$runs/lock"
flock -n 9 || { say "another family.sh, or a training that it left behind, is at work in $runs"; exit 1; }
"$scripts/corpus.sh" "$corpus"
head -c 20000 "$corpus/sherlock.txt" >"$runs/short.txt"
# shellcheck disable=SC2086
[ -f "$runs/tokenizer.json" ] ||
    "$build/noised-train" tokenizer --vocab-size $vocab --out "$runs/tokenizer.json" --data $books >/dev/null
make_configs
train_all
time_all
write_documents
