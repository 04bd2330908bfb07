#!/bin/sh
# demo_works.sh CORPUS OUT: the demo's corpus as sixteen files, OUT/<author>--<work>.txt, whose names it prints: a work, some,
# or a part of one, in the order of the demo's components. CORPUS is what demo_corpus.sh made; as its bytes are fixed, so
# are the lines at which works begin. Long paragraphs, and addresses, which are one line each, are divided at the end of
# a sentence.
set -eu
corpus=${1:?usage: demo_works.sh CORPUS OUT} out=${2:?usage: demo_works.sh CORPUS OUT}
mkdir -p "$out"
while read -r author work lines; do
    sed -n "${lines}p" "$corpus/$author.txt" | sed -e 's/\(.\{500\}[^.]*\.\) /\1\n/g' >"$out/$author--$work.txt"
    echo "$out/$author--$work.txt"
done <<'END'
doyle league 1,1238
doyle carbuncle 1239,$
austen emma 1,2376
austen mansfield 2377,4217
austen northanger 4218,6308
austen pride 6309,$
poe tales 1,1952
poe pym 1953,2666
poe humour 2667,4354
poe verse 4355,$
sotu 1790 1,124
sotu 1861 125,215
sotu 1913 216,342
sotu 1982 343,$
melville voyage 1,1249
melville chase 1250,$
END
