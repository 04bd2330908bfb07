#!/bin/sh
# Installs the Debian packages that are missing, those named besides too; quiet and quick when there are none.
set -eu
packages="gcc make libc6-dev pkg-config libmicrohttpd-dev libcjson-dev libopenblas-openmp-dev libpcre2-dev
          libssl-dev libunistring-dev libpng-dev libsystemd-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev curl $*"
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is not Debian, so nothing is installed. What is needed, by the names it has there:"
    for p in $packages; do echo "  $p"; done
    exit 0
fi
missing=
for p in $packages; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "run as root (or install sudo): missing packages:$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "installing:$missing" | fold -s -w 79
export DEBIAN_FRONTEND=noninteractive
progress=$(dirname "$0")/progress.sh
"$progress" "package lists" - $as_root apt-get update -q
# shellcheck disable=SC2086
"$progress" installing - $as_root apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 $missing
