#!/bin/sh
# Unpacks into a folder what an ARM64 build links and runs against, from Debian's packages for arm64. Nothing is
# installed, and no architecture is added to this machine's.
# usage: scripts/arm64.sh FOLDER
set -eu
root=$(mkdir -p "$1" && cd "$1" && pwd)
[ -e "$root/complete" ] && exit 0
apt=$root/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
cat >"$apt/conf" <<EOF
APT::Architecture "arm64";
APT::Architectures {"arm64";};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
EOF
export APT_CONFIG="$apt/conf"
apt-get update -qq
apt-get install -qq -y --download-only libc6-dev libgomp1 libcjson-dev libmicrohttpd-dev libpng-dev libpcre2-dev libssl-dev \
    libsystemd-dev libunistring-dev libopenblas-openmp-dev zlib1g-dev libzstd-dev >/dev/null
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
rm -rf "$apt"
touch "$root/complete"
