#!/bin/bash
# with_daemon.sh [OPTION...] -- COMMAND...: serves with these options on a free port and runs the command, to which URL
# says where; its exit status. The daemon's log goes to LOG, or nowhere.
set -eu
options=()
while [ "$1" != -- ]; do
    options+=("$1")
    shift
done
shift
out=$(mktemp)
"${BUILD:-build}/noised" --port 0 "${options[@]}" >"$out" 2>"${LOG:-/dev/null}" &
daemon=$!
trap 'kill $daemon 2>/dev/null || true; rm -f "$out"' EXIT
export URL=
until [ -n "$URL" ] && "${BUILD:-build}/noised" --probe "$URL/health" 2>/dev/null; do
    kill -0 $daemon || exit 1
    sleep 0.1
    URL=$(sed -n 's/^listening on //p' "$out")
done
"$@"
