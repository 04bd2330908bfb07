#!/bin/sh
# train_on_hosts.sh HOSTS OPTIONS...: `noised-train-mpi pretrain --resume OPTIONS` on all of HOSTS that answer, again and
# again until it is done. A rank that dies, hangs or finds its disk full ends the others, and the next attempt goes on from the last
# checkpoint with whoever is left; the bytes are those of a run that nothing happened to (docs/scale.md).
#
#     PROGRAM=$PWD/build/noised-train-mpi scripts/train_on_hosts.sh hosts --config noiseformer-v2-124m \
#         --data texts/*.txt --accumulate 64 --out runs/124m
#
# HOSTS is a file as mpirun reads it, a line a host: `node1 slots=4` has four ranks. It is read before every attempt, so
# hosts may be added and taken away. A host answers when `ssh HOST true` does; OMPI_MCA_plm_rsh_agent names another way,
# for mpirun and for this.
#
# PROGRAM, MPIRUN   instead of noised-train-mpi on every host's PATH, and of "mpirun --bind-to none"
# PAUSE, TRIES      10: seconds between attempts; 5: attempts in a row that may end without a new checkpoint
#
# The status is 0 when it is done. 2 (the command is wrong), 129, 130 and 143 (somebody has stopped a rank: it is saved)
# are not tried again, nor is a first attempt that is refused. A TERM or INT to this script ends mpirun.
set -u
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
hosts=$1
shift
agent=${OMPI_MCA_plm_rsh_agent:-ssh -o BatchMode=yes -o ConnectTimeout=10}
# mpirun notices within 25 s that a host is gone: sooner than ranks miss those on it, upon which it would wait for that host
# to end them.
export OMPI_MCA_oob_tcp_keepalive_time="${OMPI_MCA_oob_tcp_keepalive_time:-10}"
export OMPI_MCA_oob_tcp_keepalive_intvl="${OMPI_MCA_oob_tcp_keepalive_intvl:-5}"
export OMPI_MCA_oob_tcp_keepalive_probes="${OMPI_MCA_oob_tcp_keepalive_probes:-3}"

say() { echo "train_on_hosts.sh: $*" >&2; }

out='' word=''
for arg; do
    case $arg in --out=*) out=${arg#--out=} ;; esac
    [ "$word" = --out ] && out=$arg
    word=$arg
done
[ -n "$out" ] || { say "--out is missing"; exit 2; }

# Which checkpoint there is, for every attempt that trains begins with one; and the steps that it has behind it.
checkpoint() { stat -c %i:%y "$out/trainer_state.json" 2>/dev/null; }
saved() { sed -n 's/^[[:space:]]*"step":[[:space:]]*\([0-9]*\).*/\1/p' "$out/trainer_state.json" 2>/dev/null; }

answers() {
    case $1 in localhost | 127.0.0.1 | "$(hostname)") return ;; esac
    # shellcheck disable=SC2086 # words
    timeout 20 $agent "$1" true </dev/null >/dev/null 2>&1
}

# The lines of the file whose hosts answer, in its order; all are asked at once.
answering() {
    sed 's/#.*//; /^[[:space:]]*$/d' "$hosts" | nl -ba | {
        while read -r number host rest; do
            { answers "$host" && echo "$number $host $rest"; } &
        done
        wait
    } | sort -n | cut -d' ' -f2-
}

here=$(mktemp) || exit 1
trap 'rm -f "$here"' EXIT
mpirun='' stopped=''
trap 'stopped=yes; [ -z "$mpirun" ] || kill -TERM "$mpirun"' TERM INT HUP

failures=0 attempts=0
while :; do
    answering >"$here"
    ranks=$(awk '{ n = 1; for (i = 2; i <= NF; i++) if ($i ~ /^slots=/) n = substr($i, 7); all += n } END { print all + 0 }' "$here")
    before=$(saved) found=$(checkpoint) attempts=$((attempts + 1))
    if [ "$ranks" -gt 0 ]; then
        # shellcheck disable=SC2086 # words
        ${MPIRUN:-mpirun --bind-to none} --hostfile "$here" -np "$ranks" "${PROGRAM:-noised-train-mpi}" pretrain --resume "$@" &
        mpirun=$!
        wait "$mpirun"
        status=$?
        # A signal ends the waiting first.
        while kill -0 "$mpirun" 2>/dev/null; do wait "$mpirun"; status=$?; done
        mpirun=''
    else
        status=75
    fi
    case $status in 0 | 2 | 129 | 130 | 143) exit "$status" ;; esac
    [ -z "$stopped" ] || exit "$status"
    now=$(saved)
    if [ "${now:-0}" -gt "${before:-0}" ]; then failures=0; else failures=$((failures + 1)); fi
    [ "$status" = 1 ] && [ "$attempts" = 1 ] && [ "$(checkpoint)" = "$found" ] && exit 1
    [ "$failures" -lt "${TRIES:-5}" ] || { say "status $status; $failures attempts ended without a new checkpoint"; exit "$status"; }
    say "status $status on $ranks ranks; again from step ${now:-0} in ${PAUSE:-10} s"
    sleep "${PAUSE:-10}"
    [ -z "$stopped" ] || exit 143
done
