"""Every speed that docs/figures/ tells, measured on this machine: noised beside PyTorch (Debian's python3-torch) and
llama.cpp (LLAMA=folder of its binaries) where these are there.

    make bench-all LLAMA=folder ONLY=serve,training,load,products,embeddings ROUNDS=5 BOUND=5 LIMIT=120

A round of a part starts all its programs, one after the other. While it runs, what all processes of the machine take of
the processors, and its host of them, is held against what those of the round take: where others had more than BOUND
percent of the processors, the round does not count. A part ends when ROUNDS rounds count, or after twice as many. A run
of a rival that takes more than LIMIT seconds is ended, and not started again. Rounds are kept in build/bench-all/ until
the program has changed, so that what is interrupted goes on; the page is written anew after every part."""
import importlib.util
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LIMIT = float(os.environ.setdefault("LIMIT", "120"))
os.environ.setdefault("STEPS", "2")

import bench_page  # noqa: E402
import bench_train  # noqa: E402
import servers  # noqa: E402

BUILD = servers.BUILD
MODELS, SCRIPT = "runs/bench-serve", "tests/bench/bench_serve.py"
LLAMA = os.environ.get("LLAMA", "")
ROUNDS, BOUND = int(os.environ.get("ROUNDS") or 5), float(os.environ.get("BOUND") or 5) / 100
CPUS = len(os.sched_getaffinity(0))
OURS = {"f32": "noised f32", "bf16": "noised bf16", "int8": "noised int8", "int4": "noised int4"}
LLAMAS = {"bf16": "llama.cpp BF16", "q8_0": "llama.cpp Q8_0", "q4_0": "llama.cpp Q4_0"}
HAS_TORCH = importlib.util.find_spec("torch") is not None
CLIENTS, TOKENS, TEXTS = 32, 64, 32


# ---- what others take ----

def machine_seconds():
    """Of processors, by all processes and by the machine's host for others."""
    user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usages)


class Foreign:
    """The share of all processors that others had inside of `with`."""

    def __enter__(self):
        self.began, self.before = time.monotonic(), machine_seconds() - own_seconds()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.began
        self.share = max(machine_seconds() - own_seconds() - self.before, 0) / (os.cpu_count() * self.seconds)


# ---- programs ----

class Round:
    """What one round finds: figures[name][figure]. `slow` are rivals that took too long before, in this part."""

    def __init__(self, slow):
        self.figures, self.slow = {}, slow

    def put(self, name, figure, value):
        self.figures.setdefault(name, {})[figure] = value

    def run(self, name, command, read):
        """Gives each line of what it prints to read(line)."""
        if name in self.slow:
            return
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              start_new_session=True) as p:
            alarm = threading.Timer(LIMIT, os.killpg, (p.pid, signal.SIGKILL))
            if name not in OURS.values():
                alarm.start()
            for line in p.stdout:
                read(line)
            p.wait()
            alarm.cancel()
        if p.returncode == -signal.SIGKILL:
            self.slow.append(name)
        elif p.returncode:
            sys.exit(f"bench-all: {' '.join(command)} ended with status {p.returncode}")

    def rates(self, name, command):
        """Of lines NAME TEST RATE."""
        self.run(name, command, lambda line: self.put(name, line.split()[1], float(line.split()[2])))


def daemon(dtype, *options):
    return servers.daemon(f"{MODELS}/mha-{dtype}", *options)


def llama_server(kind):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    return servers.Server([f"{LLAMA}/llama-server", "-m", f"{MODELS}/gpt2-{kind}.gguf", "-c", "32768", "-np",
                           str(CLIENTS), "-t", str(CPUS), "--port", str(port)], f"http://127.0.0.1:{port}")


# ---- the parts ----

def serve(r):
    for dtype, name in OURS.items():
        r.rates(name, [f"{BUILD}/bench-serve", "1", "prefill=512", "decode=1", "decode=8", "decode=32",
                       f"{MODELS}/mha-{dtype}"])
    for dtype in ("f32", "bf16") if HAS_TORCH else ():
        r.rates("PyTorch " + dtype, [sys.executable, SCRIPT, "torch", dtype])
    for kind, name in LLAMAS.items() if LLAMA else ():
        of = f"-m {MODELS}/gpt2-{kind}.gguf -t {CPUS}"
        both = f"{LLAMA}/llama-bench {of} -p 512 -n 24 -r 1; " \
               f"{LLAMA}/llama-batched-bench {of} -c 4096 -npp 64 -ntg 24 -npl 8,32"
        r.rates(name, ["sh", "-c", f"({both}) 2>/dev/null | exec {sys.executable} {SCRIPT} llama {name.split()[1]}"])


def training(r):
    with tempfile.TemporaryDirectory() as folder:
        for shape, s in bench_train.SHAPES.items():
            for c in bench_train.contestants(folder):
                name = c.name.replace("noised-train", "noised")
                if name in r.slow:
                    continue
                try:
                    run = c.run(s)
                except subprocess.TimeoutExpired:
                    r.slow.append(name)
                    continue
                r.put(name, shape, len(run.seconds) * s["batch"] * s["positions"] / sum(run.seconds))
                r.put(name, shape + " GiB", run.bytes / 2**30)
                if run.start:
                    r.put(name, shape + " start", run.start)
                    r.put(name, shape + " save", run.save)


def load(r):
    beside = [(name, daemon(dtype, "--kv-tokens", "32768")) for dtype, name in OURS.items() if dtype != "f32"]
    beside += [(name, llama_server(kind)) for kind, name in LLAMAS.items()] if LLAMA else []
    for name, server in beside:
        if name in r.slow:
            continue
        with server:
            for prompt in (64, 512):
                def read(line, prompt=prompt):
                    row = line.split()
                    if row[2:3] == ["clients"]:
                        for figure, at in (("tokens/s", 3), ("first p90", 7), ("gap p99", 11)):
                            r.put(name, f"{prompt} {figure}", float(row[at]))
                r.run(name, [f"{BUILD}/bench-load", "--url", server.url, "--clients", str(CLIENTS), "--requests",
                             str(CLIENTS), "--prompt-tokens", str(prompt), "--max-tokens", str(TOKENS), "--same", "no"],
                      read)


def products(r):
    def read(line):
        _, dtype, k, outputs, rows, rate = line.split()
        r.put(dtype, f"{k} {outputs} {rows}", float(rate))
    r.run(OURS["f32"], [f"{BUILD}/bench-gemm", "--products"], read)


def embeddings(r):
    """Texts of 128 tokens in one request, and one request each, beside the forward pass of 512 rows."""
    texts = [[257 + (7919 * (128 * i + k)) % 4000 for k in range(128)] for i in range(TEXTS)]
    for dtype, name in OURS.items():
        r.rates(name, [f"{BUILD}/bench-serve", "1", "prefill=512", f"{MODELS}/mha-{dtype}"])
        with daemon(dtype) as server:
            server.post("/v1/embeddings", {"input": texts[:1]})
            for figure, inputs in (("in one request", [texts]), ("one by one", [[t] for t in texts])):
                began = time.monotonic()
                for of_request in inputs:
                    server.post("/v1/embeddings", {"input": of_request})
                r.put(name, figure, TEXTS / (time.monotonic() - began))


PARTS = {"serve": serve, "training": training, "load": load, "products": products, "embeddings": embeddings}


# ---- rounds ----

def limits():
    line = subprocess.run([f"{BUILD}/bench-gemm", "--limits"], check=True, stdout=subprocess.PIPE, text=True).stdout
    _, level, f32, bf16, int8, read = line.split()
    cpu = dict(l.split(":", 1) for l in open("/proc/cpuinfo").read().split("\n\n")[0].split("\n") if ":" in l)
    cpu = {k.strip(): v.strip() for k, v in cpu.items()}
    model = re.sub(r"\((R|TM)\)| Processor\b", "", cpu.get("model name", os.uname().machine))
    return {"cpu": f"{model} (family {cpu.get('cpu family', '?')}, model {cpu.get('model', '?')})", "cores": CPUS,
            "level": level, "F32": float(f32), "BF16": float(bf16), "I8": float(int8), "I4": float(int8), "read": float(read)}


def commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()


def kept(part):
    try:
        with open(f"{BUILD}/bench-all/{part}.json", encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def keep(part, what):
    path = f"{BUILD}/bench-all/{part}.json"
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        json.dump(what, f, indent=1)
    os.rename(path + ".tmp", path)


def measure(part):
    found = kept(part)
    if not found or found["commit"] != commit():
        found = {"commit": commit(), "bound": BOUND, "rounds": [], "slow": []}
    while sum(r["foreign"] <= BOUND for r in found["rounds"]) < ROUNDS and len(found["rounds"]) < 2 * ROUNDS:
        r = Round(found["slow"])
        with Foreign() as foreign:
            PARTS[part](r)
        found["bound"], found["date"] = BOUND, time.strftime("%Y-%m-%d")
        found["rounds"].append({"foreign": foreign.share, "seconds": foreign.seconds, "figures": r.figures})
        keep(part, found)
        print(f"{part}: round {len(found['rounds'])} took {foreign.seconds:.0f} s, others had {foreign.share:.1%} of "
              f"the processors{'' if foreign.share <= BOUND else ': does not count'}", flush=True)


def main():
    only = os.environ.get("ONLY", "").split(",") if os.environ.get("ONLY") else list(PARTS)
    unknown = [p for p in only if p not in PARTS]
    if unknown:
        sys.exit(f"bench-all: ONLY names {', '.join(unknown)}; there are {', '.join(PARTS)}")
    os.makedirs(f"{BUILD}/bench-all", exist_ok=True)
    subprocess.run(["tests/bench/bench_models.sh"], check=True)
    keep("machine", limits())
    for part in only:
        measure(part)
        bench_page.write(kept("machine"), {p: kept(p) for p in PARTS if kept(p)}, bool(LLAMA), HAS_TORCH)


if __name__ == "__main__":
    main()
