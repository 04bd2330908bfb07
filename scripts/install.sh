#!/bin/sh
# install.sh install|uninstall BUILD: puts the programs of BUILD, their manual pages and completions, the units, the demo,
# what operators read and the examples below $DESTDIR$PREFIX, or takes exactly these away again.
set -eu
what=${1:?usage: install.sh install|uninstall BUILD} build=${2:?usage: install.sh install|uninstall BUILD}
prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}$prefix
umask 022 # whoever installs, all may look into the folders
programs="noised noised-train noised-weights"
# Debian's zsh looks for what packages bring and for what is below /usr/local in folders of different names.
zsh=site-functions
[ "$prefix" != /usr ] || zsh=vendor-completions

# $1: where it goes below the prefix, $2: its mode; the contents come from standard input.
put() {
    if [ "$what" = uninstall ]; then
        rm -f "$root/$1"
        return
    fi
    mkdir -p "$root/$(dirname "$1")"
    cat >"$root/$1.new"
    chmod "$2" "$root/$1.new"
    mv "$root/$1.new" "$root/$1"
}

for p in $programs; do
    [ "$what" = uninstall ] || [ -x "$build/$p" ] || { echo "$build/$p is not there: make all" >&2; exit 1; }
    [ "$what" = uninstall ] || "$build/$p" --version >/dev/null # what is piped below hides a program that cannot run
    put "bin/$p" 755 <"$build/$p"
    { "$build/$p" --help=man; sed "s|/usr/share/|$prefix/share/|" docs/man/$p.roff; } | gzip -9n | put "share/man/man1/$p.1.gz" 644
    "$build/$p" --help=completion-bash | put "share/bash-completion/completions/$p" 644
    "$build/$p" --help=completion-zsh | put "share/zsh/$zsh/_$p" 644
    "$build/$p" --help=completion-fish | put "share/fish/vendor_completions.d/$p.fish" 644
done
for unit in noised.service noised.socket noised@.service noised@.socket; do
    sed "s|/usr/local/bin|$prefix/bin|; /^#   install -m/d" "deploy/$unit" | put "lib/systemd/system/$unit" 644
done
put lib/sysusers.d/noised.conf 644 <deploy/noised.sysusers
for f in config.json model.safetensors tokenizer.json chat_template.jinja README.md; do put "share/noised/demo/$f" 644 <weights/demo/$f; done
for f in README.md deploy/RUNBOOK.md docs/api.md docs/spec.md; do put "share/doc/noised/${f##*/}" 644 <$f; done
for f in $(git ls-files examples 2>/dev/null || ls -d examples/*) deploy/haproxy.cfg deploy/haproxy.lua deploy/nginx.conf \
    deploy/prometheus.yml deploy/grafana.json deploy/otel-collector.yaml; do
    put "share/doc/noised/examples/${f##*/}" 644 <"$f"
done
[ "$what" = install ] || rmdir "$root/share/noised/demo" "$root/share/noised" "$root/share/doc/noised/examples" \
    "$root/share/doc/noised" 2>/dev/null || true
