#!/bin/sh
# merge.sh BUILD TARGET...: of all inputs at hand, those of the tree and those in BUILD/corpus, the smallest few that
# reach together whatever any of them reaches become tests/fuzz/corpus/TARGET.
set -eu
build=$1
shift
for target; do
    kept=tests/fuzz/corpus/$target
    rm -rf "$build/merged"
    mkdir -p "$build/merged" "$kept" "$build/corpus/$target" "$build/found/$target"
    "$build/fuzz-$target" -set_cover_merge=1 -timeout=60 -artifact_prefix="$build/found/$target/" "$build/merged" \
        "$kept" "$build/corpus/$target" >"$build/merge-$target.log" 2>&1
    rm -rf "$kept"
    mv "$build/merged" "$kept"
    echo "$target: $(ls "$kept" | wc -l) inputs, $(du -bs "$kept" | cut -f1) bytes"
done
