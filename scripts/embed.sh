#!/bin/sh
# embed.sh [--check]: the files that Markdown shows in full. Behind a line `<!-- file: PATH -->` the next code block is
# the content of PATH; without --check it is written there, with it a difference is an error (make lint).
set -eu
cd "$(dirname "$0")/.."
failed=0
for page in $(git ls-files '*.md' | xargs grep -l '^<!-- file: .* -->$' || true); do
    new=$(mktemp)
    awk '
        /^<!-- file: .* -->$/ { path = $3 }
        /^```/ && path != "" && !inside { print; inside = 1; while ((getline line < path) > 0) { print line; read = 1 }
                                          if (!read) { print FILENAME ": no " path > "/dev/stderr"; exit 1 }
                                          close(path); read = 0; next }
        /^```$/ && inside { inside = 0; path = "" }
        !inside' "$page" >"$new"
    if cmp -s "$new" "$page"; then
        :
    elif [ "${1:-}" = --check ]; then
        echo "$page: shows another text than the file it names; run scripts/embed.sh"
        failed=1
    else
        cat "$new" >"$page"
    fi
    rm -f "$new"
done
exit $failed
