#!/bin/sh
# run.sh BUILD SECONDS TARGET...: libFuzzer over each target for so many seconds, two processes at a time, and a table of
# what came of it. What it finds worth keeping is in BUILD/corpus/TARGET (tests/fuzz/merge.sh makes of that what is in
# the tree), what broke a target in BUILD/found/TARGET.
set -eu
build=$1 seconds=$2
shift 2
found=0
table=$build/fuzz.txt
printf '%-12s %10s %8s %8s %9s\n' target runs edges corpus findings >"$table"
for target; do
    corpus=$build/corpus/$target broken=$build/found/$target log=$build/fuzz-$target.log
    mkdir -p "$corpus" "$broken" "tests/fuzz/corpus/$target"
    set -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1
    [ -e "tests/fuzz/dictionaries/$target" ] && set -- "$@" -dict="tests/fuzz/dictionaries/$target"
    echo "$target: $seconds seconds"
    : >"$log"
    for job in 1 2; do
        "$build/fuzz-$target" "$@" -artifact_prefix="$broken/" "$corpus" "tests/fuzz/corpus/$target" >"$log.$job" 2>&1 &
    done
    wait
    cat "$log".[12] >"$log"
    rm "$log".[12]
    runs=$(awk '/^stat::number_of_executed_units/ { n += $2 } END { print n + 0 }' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | sort -n | tail -n 1)
    n=$(ls "$broken" | wc -l)
    found=$((found + n))
    printf '%-12s %10d %8d %8d %9d\n' "$target" "$runs" "${edges:-0}" "$(ls "$corpus" "tests/fuzz/corpus/$target" | wc -l)" "$n" >>"$table"
    [ "$n" = 0 ] || sed -n '/SUMMARY\|tests\/fuzz\/.*\.c:/p' "$log" | sort | uniq -c | sort -rn | head -n 5
done
cat "$table"
[ "$found" = 0 ] || { echo "$found inputs that break a target: $build/found"; exit 1; }
