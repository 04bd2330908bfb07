#!/bin/sh
# progress.sh WHAT TOTAL COMMAND...: runs it and draws the lines that it prints over each other, "WHAT 37/212: line", TOTAL
# being how many that will be, 0 for none that matters, - for nobody knows. Where no terminal reads, each 25th is a line.
# What it has to say on standard error is shown if it fails. Its exit status, but 0 after Ctrl-C: the make that called has
# the signal too and ends by it, and would tell of any other status.
set -u
what=$1 total=$2
shift 2
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
trap 'echo; exit 0' INT

draw() {
    n=0
    while IFS= read -r line; do
        [ "$total" != 0 ] || continue
        n=$((n + 1)) of=/$total
        text=$(printf '%.79s' "$what $n${of%/-}: ${line#  ??   }")
        if [ -t 1 ]; then
            printf '\r\033[K%s' "$text"
        elif [ $((n % 25)) = 0 ]; then
            printf '%s\n' "$text"
        fi
    done
    [ ! -t 1 ] || [ $n = 0 ] || echo
}

exec 4>&1
status=$({ { "$@" 2>"$errors" 3>&-; echo $? >&3; } | draw >&4; } 3>&1)
[ "$status" = 0 ] || cat "$errors" >&2
exit "$status"
