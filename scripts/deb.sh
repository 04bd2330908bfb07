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
cat >"$stage/DEBIAN/control" <<END
Package: noised
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$stage/usr" | cut -f1)
Depends: $depends
Suggests: curl
Section: science
Priority: optional
Description: server for small language models with a noise seed per request
 noised serves NoiseFormer, SAS and related language models over HTTP. Every
 answer reports its seeds, and the same seeds give the same bytes under any
 load. noised-train trains such models from plain text, noised-weights inspects
 and converts them. A small trained model is included.
END
cat >"$stage/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v systemd-sysusers >/dev/null; then
    systemd-sysusers noised.conf
fi
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
fi
END
cat >"$stage/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop noised.socket noised.service || true
fi
END
cat >"$stage/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
fi
END
chmod 755 "$stage"/DEBIAN/p*
(cd "$stage" && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
dpkg-deb -z2 --root-owner-group --build "$stage" "$build/noised_${version}_$arch.deb" >/dev/null
echo "$build/noised_${version}_$arch.deb"
