#!/bin/sh
# Makes the default corpus in $1: three public-domain books out of four Debian packages, no root needed.
#   kjv.txt       the King James Bible, one verse a line      (bible-kjv, bible-kjv-text)
#   mobydick.txt  Melville's Moby-Dick                        (golang-github-colinmarc-hdfs-dev, its test data)
#   sherlock.txt  The Adventures of Sherlock Holmes           (golang-github-jdkato-prose-dev, its test data)
# The result is checked by hash, so everybody trains on the same bytes.
set -eu
out=${1:?usage: corpus.sh FOLDER}
want=6851632aa66567173bc6213fe658c32932c0679a160a3e67b2a00e30e7591b60
sum() { cat "$out/sherlock.txt" "$out/mobydick.txt" "$out/kjv.txt" 2>/dev/null | sha256sum | cut -d' ' -f1; }
[ "$(sum)" = "$want" ] && exit 0

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "fetching four Debian packages (5.3 MB)"
download="apt-get -qq -o APT::Sandbox::User=root download bible-kjv bible-kjv-text golang-github-colinmarc-hdfs-dev
          golang-github-jdkato-prose-dev"
if ! $download 2>/dev/null; then
    if [ "$(id -u)" = 0 ]; then apt-get update -qq; else sudo apt-get update -qq; fi
    $download
fi
for deb in *.deb; do dpkg-deb -x "$deb" root; done
# One verse a line without its reference, an empty line between chapters.
root/usr/bin/bible -p root/usr/lib -f gen1:1-rev22:21 |
    sed -e '2,$s/^[^ ]*:1 /\n&/' | sed -e 's/^[^ ]*[0-9]:[0-9][0-9]* //' -e 's/  */ /g' -e 's/ $//' >"$out/kjv.txt"
# Project Gutenberg's texts without its header and footer.
for book in mobydick sherlock; do
    sed -e '1s/^\xef\xbb\xbf//' -e 's/\r$//' "$(find root -name $book.txt | head -n 1)" |
        sed -e '1,/^\*\*\* *START OF/d' | sed -e '/^End of \(the \)\?Project Gutenberg/,$d' >"$out/$book.txt"
done
[ "$(sum)" = "$want" ] || {
    echo "the corpus in $out has sha256 $(sum), expected $want" >&2
    exit 1
}
