#!/bin/sh
# join.sh: the page of GET / as C. Puts style.css and the modules into index.html where it names them, a
# module after those it imports from (their `import` lines and `export` words fall away: it is one module then, where no
# name comes twice), without comments, indentation, the ends of lines behind a sign and, in lines without a string, the
# spaces around signs, and prints the bytes as the array page_html of server/page/page.h. join.sh --html prints the page
# itself.
set -eu
cd "$(dirname "$0")"
modules="text state stream card answers tokens columns controls diversity seedmap branches under sweep shelf chat export
noise curl tasks manners main"
html() {
    awk -v modules="$(echo $modules)" '
        function copy(path, signs, line, i, sign) {
            while ((getline line < path) > 0) {
                sub(/^ +/, "", line)
                sub(/^export /, "", line)
                if (path ~ /js$/) sub(/ +\/\/ [^"`\047]*$/, "", line)
                if (line ~ /^(import |\/\/|$)/) continue
                for (i = 1; i <= length(signs) && line !~ /["`\/\047]/; i++) {
                    sign = substr(signs, i, 1)
                    gsub(" *[" sign "] *", sign, line)
                }
                if (path ~ /css$/) gsub(/: +/, ":", line)
                printf "%s%s", line, line ~ /[,;{(]$/ ? "" : "\n"
            }
            close(path)
        }
        $1 == "@style" { copy("style.css", "{};,"); next }
        $1 == "@script" {
            n = split(modules, names, " ")
            for (i = 1; i <= n; i++) copy(names[i] ".js", "=,{}():?|<>;*")
            next
        }
        { sub(/^ +/, ""); print }' index.html
}
if [ "${1:-}" = --html ]; then html; exit; fi
echo '#include "server/page/page.h"'
echo 'const char page_html[] = {'
html | od -An -v -td1 | sed 's/\([0-9]\)\( \|$\)/\1,/g'
echo '};'
echo 'const size_t page_bytes = sizeof page_html;'
