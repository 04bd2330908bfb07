#!/bin/sh
# deb.sh BUILD: packs what install.sh installs into BUILD/noised_VERSION_ARCH.deb.
set -eu
build=${1:?usage: deb.sh BUILD}
for tool in dpkg-deb dpkg-shlibdeps strip; do
    command -v $tool >/dev/null || { echo "$tool is missing: apt-get install dpkg-dev binutils" >&2; exit 1; }
done
maintainer="noised maintainers <maintainers@noised.invalid>"
version=$("$build/noised" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage
umask 022
DESTDIR=$stage PREFIX=/usr scripts/install.sh install "$build"
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$stage"/usr/bin/*

doc=$stage/usr/share/doc/noised
mkdir -p "$doc" "$stage/DEBIAN" "$work/debian"
{ printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: noised\n\n'
  printf 'Files: *\n%s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c)/Copyright:/p' LICENSE)"
  sed '1,/^Permission/{/^Permission/!d}; s/^$/./; s/^/ /' LICENSE; } >"$doc/copyright"
gzip -9n <CHANGELOG.md >"$doc/CHANGELOG.md.gz"
date=$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")
printf 'noised (%s) unstable; urgency=medium\n\n  * CHANGELOG.md tells what is new.\n\n -- %s  %s\n' "$version" "$maintainer" \
    "$date" | gzip -9n >"$doc/changelog.gz"

printf 'Source: noised\n\nPackage: noised\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O stage/usr/bin/* 2>/dev/null | sed 's/^shlibs:Depends=//')
# Of OpenBLAS's builds the one that the programs are linked to (Makefile).
depends=$(echo "$depends" | sed 's/\blibopenblas0\b/libopenblas0-openmp/')
cat >"$stage/DEBIAN/control" <<END
Package: noised
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$stage/usr" | cut -f1)
Depends: $depends, init-system-helpers (>= 1.54)
Suggests: curl
Section: science
Priority: optional
Description: server for small language models with a noise seed per request
 noised serves NoiseFormer, SAS and related language models over HTTP. Every
 answer reports its seeds, and the same seeds give the same bytes under any
 load. noised-train trains such models from plain text, noised-weights inspects
 and converts them. A small trained model is included.
END
mkdir -p "$stage/etc/default"
install -m 644 deploy/noised.default "$stage/etc/default/noised"
echo /etc/default/noised >"$stage/DEBIAN/conffiles"

# As debhelper writes them: who disabled the service finds it disabled after an upgrade. It runs at once, with the demo,
# and an upgrade starts the new program; the socket stays, so that no connection is refused meanwhile.
cat >"$stage/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then systemd-sysusers noised.conf; fi
    for unit in noised.socket noised.service; do
        deb-systemd-helper unmask $unit >/dev/null || true
        if deb-systemd-helper --quiet was-enabled $unit; then
            deb-systemd-helper enable $unit >/dev/null || true
        else
            deb-systemd-helper update-state $unit >/dev/null || true
        fi
    done
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        deb-systemd-invoke start noised.socket >/dev/null || true
        deb-systemd-invoke ${2:+re}start noised.service >/dev/null || true
    fi
    if [ -z "$2" ]; then
        echo "noised serves its demo at http://127.0.0.1:8080 where systemd runs; /etc/default/noised names the model."
    fi
fi
END
cat >"$stage/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop noised.socket noised.service >/dev/null || true
fi
END
cat >"$stage/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = remove ] && command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper mask noised.socket noised.service >/dev/null || true
fi
if [ "$1" = purge ]; then
    if command -v deb-systemd-helper >/dev/null; then
        deb-systemd-helper purge noised.socket noised.service >/dev/null || true
        deb-systemd-helper unmask noised.socket noised.service >/dev/null || true
    fi
    # It owns nothing: the service writes nowhere.
    if command -v userdel >/dev/null && getent passwd noised >/dev/null; then userdel noised; fi
fi
END
chmod 755 "$stage"/DEBIAN/p*
# Debian's choice of libopenblas.so.0 may be the build that starts threads before main: the Makefile names ours.
install -d "$stage/usr/share/lintian/overrides"
echo 'noised: custom-library-search-path RUNPATH /usr/lib/*/openblas-openmp [usr/bin/*]' \
    >"$stage/usr/share/lintian/overrides/noised"
(cd "$stage" && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
dpkg-deb -z2 --root-owner-group --build "$stage" "$build/noised_${version}_$arch.deb" >/dev/null
echo "$build/noised_${version}_$arch.deb"
