#!/bin/bash
# walk.sh PAGE: the first hour of a new user in a terminal of 80 columns, from the commit that is checked out here, and
# what it printed as a page: clone, packages, build, demo with its port taken, a training of one's own that is
# interrupted and resumed, its picture, a sample, another program's folder served, install, package. The machine is a
# bare Debian 12 in /tmp/noised-walk, which debootstrap makes and the end removes; root alone can do that.
set -eu
debian=/tmp/noised-walk

if [ "${1:-}" != --inside ]; then
    page=$(realpath "${1:?usage: walk.sh PAGE}") tree=$(git rev-parse --show-toplevel)
    rm -rf --one-file-system $debian
    debootstrap --variant=minbase bookworm $debian >/dev/null
    trap 'rm -rf --one-file-system $debian' EXIT
    git clone -q --bare "$tree" $debian/root/noised.git
    git --git-dir=$debian/root/noised.git update-ref refs/heads/walk "$(git -C "$tree" rev-parse HEAD)"
    git --git-dir=$debian/root/noised.git symbolic-ref HEAD refs/heads/walk
    cat "$tree"/docs/*.md >$debian/root/book.txt
    cp "$0" $debian/root/walk.sh
    # What is mounted is gone with the last of these processes.
    unshare --mount --pid --fork sh -c 'mount -t proc proc $0/proc && mount --rbind /dev $0/dev && mount --rbind /sys $0/sys &&
        exec chroot $0 env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            bash /root/walk.sh --inside' $debian
    cp $debian/root/page.md "$page"
    exit
fi

page=/root/page.md port=8080
cd /root

# Of a line that was drawn over and over the last state stays; of files that were compiled the first.
tidy() {
    sed -e 's/\r*$//' -e 's/.*\r//' -e 's/\x1b\[[0-9;]*[A-Za-z]//g' -e 's/ *$//' | awk '
        function rest() { if (n > 1) printf "[... %d more ...]\n", n - 1; n = 0 }
        /^  CC   / { if (n++) next }
        !/^  CC   / { rest() }
        /^$/ { blank++; next }
        { for (; blank; blank--) print ""; print }
        END { rest() }'
}

say() { printf '\n%s\n\n' "$*" >>"$page"; }

# COMMAND [SECONDS]: types it, and after so many seconds Ctrl-C.
enter() {
    local press=${2:+timeout -s INT $2} status=0 started=$SECONDS
    printf '%s\n' "$1" >command
    script -qec "stty cols 80 rows 25; cd /root/noised 2>/dev/null; $press bash /root/command" output </dev/null >/dev/null ||
        status=$?
    { printf '```console\n$ %s\n' "$1"
      sed '1d;$d' output | tidy
      [ -z "$press" ] || echo "[Ctrl-C after $2 s]"
      printf '[status %d, %d s]\n```\n' $status $((SECONDS - started)); } >>"$page"
    echo "walk: status $status, $((SECONDS - started)) s: $1" >&2
}

cat >"$page" <<PAGE
# The first hour

What \`scripts/walk.sh\` typed on a bare Debian 12 (\`debootstrap --variant=minbase\`), and what it read on a terminal of
80 columns, on $(nproc) cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1). Other work shared them. Lines in brackets are
the script's.
PAGE
say "## Clone and build"
enter "apt-get update -qq && apt-get install -qq -y git make >/dev/null 2>&1"
enter "git clone -q ~/noised.git ~/noised"
enter "make"
enter "make deps"
enter "time make"
say "## The demo, while another server has the port"
noised/build/noised --model noised/weights/demo --port $port >/dev/null 2>&1 &
other=$!
sleep 3
enter "make run PORT=$port"
enter "make run" 60
kill $other
say "## A model of one's own"
cp book.txt noised
enter "build/noised-train presets | head -n 5"
train="build/noised-train pretrain --config noiseformer-v2-nano --steps 1000"
enter "$train --data book.txt --out runs/mine" 4
enter "build/noised-train pretrain --resume --out runs/mine"
enter "build/noised-train plot runs/mine"
enter "build/noised-train sample --model runs/mine --prompt 'The server' --max-tokens 32"
enter "build/noised-train pretrain --confg noiseformer-v2-nano --out runs/mine"
say "## A folder of another program, which has no tokenizer"
enter "build/noised-weights inspect tests/golden_foreign/qwen3 | head -n 12"
ask='{"prompt":[1,2,3],"max_tokens":4,"return_token_ids":true}'
enter "build/noised --model tests/golden_foreign/qwen3 --port $port & sleep 2; curl -s localhost:$port/v1/completions -d '$ask'; kill %1; wait"
say "## Install and package"
enter "make install DESTDIR=\$HOME/root PREFIX=/usr >/dev/null && find ~/root -type f | sort"
enter "make deb"
