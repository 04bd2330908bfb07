#!/bin/sh
# run.sh BUILD SECONDS TARGET...: libFuzzer over each target for so many seconds, two processes at a time, and a table of
# what came of it. What is worth keeping goes to BUILD/corpus/TARGET (merge.sh takes the best of it into the tree), what
# breaks a target to BUILD/found/TARGET; BUILD/runs.log has a line for each time.
set -eu
build=$1 seconds=$2
shift 2
found=0
table=$build/fuzz.txt
printf '%-12s %10s %12s %6s %7s %9s\n' target runs 'runs in all' edges corpus findings >"$table"
for target; do
    corpus=$build/corpus/$target broken=$build/found/$target log=$build/fuzz-$target.log
    kept=tests/fuzz/corpus/$target words=tests/fuzz/dictionaries/$target
    mkdir -p "$corpus" "$broken" "$kept"
    echo "$target: $seconds seconds"
    set -- -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1
    [ ! -e "$words" ] || set -- "$@" -dict="$words"
    jobs='' ended=0
    for job in 1 2; do
        "$build/fuzz-$target" "$@" -artifact_prefix="$broken/" "$corpus" "$kept" >"$log.$job" 2>&1 &
        jobs="$jobs $!"
    done
    for job in $jobs; do wait "$job" || ended=1; done
    cat "$log.1" "$log.2" >"$log"
    runs=$(awk '/^stat::number_of_executed_units/ { n += $2 } END { print n + 0 }' "$log")
    echo "$target $runs $seconds" >>"$build/runs.log"
    all=$(awk -v target="$target" '$1 == target { n += $2 } END { print n }' "$build/runs.log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | sort -n | tail -n 1)
    inputs=$(find "$corpus" "$kept" -type f | wc -l)
    broke=$(find "$broken" -type f | wc -l)
    # What breaks before the first input leaves none.
    [ "$broke" != 0 ] || broke=$ended
    found=$((found + broke))
    printf '%-12s %10d %12d %6d %7d %9d\n' "$target" "$runs" "$all" "${edges:-0}" "$inputs" "$broke" >>"$table"
    [ "$broke" = 0 ] || grep -h -E 'SUMMARY|runtime error|^tests/fuzz' "$log" | sort | uniq -c
    rm "$log.1" "$log.2"
done
cat "$table"
[ "$found" = 0 ] || { echo "$found inputs break a target: $build/found"; exit 1; }
