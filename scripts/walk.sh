#!/bin/bash
# walk.sh PAGE: the first hour of a new user in a terminal of 80 columns, from the commit that is checked out here, and
# what it printed as a page: clone, build, demo with its port taken, a training of one's own that is interrupted and
# resumed, its picture, a sample, another program's folder served, install, package. Works in /tmp/noised-walk.
set -eu
page=$(realpath "${1:?usage: walk.sh PAGE}") tree=$(git rev-parse --show-toplevel) port=${PORT:-8080}
export HOME=/tmp/noised-walk LC_ALL=C.UTF-8 PS1='$ '
unset MAKEFLAGS MAKELEVEL CCACHE_DIR XDG_CONFIG_HOME
rm -rf $HOME
mkdir -p $HOME
cd $HOME
git clone -q --bare "$tree" noised.git
git --git-dir=noised.git branch -q -f walk "$(git -C "$tree" rev-parse HEAD)"
git --git-dir=noised.git symbolic-ref HEAD refs/heads/walk

# Of a line that was drawn over and over the last state stays; of more than 70 lines the ends.
tidy() {
    sed -e 's/\r*$//' -e 's/.*\r//' -e 's/\x1b\[[0-9;]*[A-Za-z]//g' |
        awk '{ line[NR] = $0 } END {
            for (i = 1; i <= NR; i++) {
                if (NR > 70 && i == 36) printf "[... %d lines ...]\n", NR - 70
                if (NR <= 70 || i <= 35 || i > NR - 35) print line[i]
            } }'
}

say() { printf '\n%s\n\n' "$*" >>"$page"; }

# COMMAND [SECONDS]: types it, and after so many seconds Ctrl-C.
enter() {
    local press=${2:+timeout -s INT $2} status=0 started=$SECONDS
    printf '%s\n' "$1" >command
    script -qec "stty cols 80 rows 25; cd $HOME/noised 2>/dev/null; $press bash $HOME/command" output </dev/null >/dev/null ||
        status=$?
    { printf '```console\n$ %s\n' "$1"
      sed '1d;$d' output | tidy
      [ -z "$press" ] || echo "[Ctrl-C after $2 s]"
      printf '[status %d, %d s]\n```\n' $status $((SECONDS - started)); } >>"$page"
    echo "walk: status $status, $((SECONDS - started)) s: $1" >&2
}

cat >"$page" <<PAGE
# The first hour

What \`scripts/walk.sh\` typed, and what it read on a terminal of 80 columns, on $(nproc) cores of
$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1). Other work shared them. Lines in brackets are the script's.
PAGE
say "## Clone and build"
enter "git clone -q ~/noised.git ~/noised"
enter "time make"
say "## The demo, while another server has the port"
"$HOME/noised/build/noised" --model "$HOME/noised/weights/demo" --port "$port" >/dev/null 2>&1 &
other=$!
trap 'kill $other 2>/dev/null || true' EXIT
sleep 3
enter "make run PORT=$port"
kill $other
enter "make run" 40
say "## A model of one's own"
cat "$tree"/docs/*.md >$HOME/noised/book.txt
enter "build/noised-train presets | head -n 5"
train="build/noised-train pretrain --config noiseformer-v2-nano --steps 200"
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
rm -rf $HOME
