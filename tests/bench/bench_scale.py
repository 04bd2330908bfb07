"""Daemons of one thread each, pinned to cores in turn, behind deploy/haproxy.cfg: tokens/s of 1, 2 and 4 of them beside
one daemon that has all cores, and what the balancer adds to the time to the first byte.

All are asked by turns, ROUNDS (5) times; medians are printed, beside the lowest and the highest. CHECKPOINT
(weights/demo), CLIENTS (1,16), TOKENS (128)."""
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
CHECKPOINT = os.environ.get("CHECKPOINT", "weights/demo")
CLIENTS = [int(n) for n in os.environ.get("CLIENTS", "1,16").split(",")]
TOKENS, ROUNDS = os.environ.get("TOKENS", "128"), int(os.environ.get("ROUNDS", "5"))
CORES = sorted(os.sched_getaffinity(0))
PORT, REPLICAS = 18100, (1, 2, 4)
HAPROXY = shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin")


def daemon(port, threads, cores):
    return subprocess.Popen([f"{BUILD}/noised", "--model", CHECKPOINT, "--port", str(port), "--threads", str(threads)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores))


def balancer(port, daemons, folder):
    with open("deploy/haproxy.cfg", encoding="utf-8") as f:
        lines = [line for line in f if not re.match("    (user|group|log stderr|server) ", line)]
    lines += [f"    server p{p} 127.0.0.1:{p}\n" for p in daemons]
    path = f"{folder}/{port}.cfg"
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(lines).replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("/etc/haproxy/", "deploy/"))
    return subprocess.Popen([HAPROXY, "-db", "-f", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(port):
    while subprocess.run([f"{BUILD}/noised", "--probe", f"http://127.0.0.1:{port}/health"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        time.sleep(0.1)


def measure(port, clients, requests, tokens, seed):  # tokens a second
    out = subprocess.run([f"{BUILD}/bench-load", "--url", f"http://127.0.0.1:{port}", "--clients", str(clients),
                          "--requests", str(requests), "--prompt-tokens", "32", "--max-tokens", str(tokens),
                          "--seed", str(seed)], check=True, capture_output=True, text=True).stdout
    row = next(line for line in out.splitlines() if line.startswith("127.0.0.1:")).split()
    return float(row[3])


def throughput(ways, clients):
    values = {name: [] for name, _ in ways}
    for i in range(ROUNDS):
        for name, port in ways:
            values[name].append(measure(port, clients, 4 * clients, TOKENS, i + 1))
    for name, v in values.items():
        print(f"| tokens/s, {clients} clients | {name} | {statistics.median(v):.0f} | {min(v):.0f} to {max(v):.0f} |",
              flush=True)


def first_byte(ways):
    """One client with a kept connection, requests of one token by turns."""
    connections = {name: http.client.HTTPConnection("127.0.0.1", port) for name, port in ways}
    values = {name: [] for name, _ in ways}
    for i in range(300 * ROUNDS):
        for name, connection in connections.items():
            start = time.perf_counter()
            connection.request("POST", "/v1/completions", '{"prompt":"a","max_tokens":1,"seed":1,"stream":true}')
            answer = connection.getresponse()
            answer.read(1)
            values[name].append(1e3 * (time.perf_counter() - start))
            answer.read()
    for name, v in values.items():
        print(f"| ms to the first byte, 1 client | {name} | {statistics.median(v):.1f} | lowest {min(v):.2f} |")


def main():
    if not HAPROXY:
        sys.exit("bench_scale: needs haproxy")
    most = max(REPLICAS)
    with tempfile.TemporaryDirectory() as folder:
        started = [daemon(PORT, len(CORES), CORES)]
        started += [daemon(PORT + 1 + i, 1, [CORES[i % len(CORES)]]) for i in range(most)]
        started += [balancer(PORT + 10 + n, range(PORT + 1, PORT + 1 + n), folder) for n in REPLICAS]
        try:
            for port in [*range(PORT, PORT + 1 + most), *(PORT + 10 + n for n in REPLICAS)]:
                wait_for(port)
            print(f"{CHECKPOINT}, {len(CORES)} cores, {ROUNDS} rounds by turns\n\n| | | median | |\n|---|---|--:|--:|")
            ways = [(f"one daemon of {len(CORES)} threads", PORT)]
            ways += [(f"haproxy before {n} of one thread", PORT + 10 + n) for n in REPLICAS]
            for n in CLIENTS:
                throughput(ways, n)
            first_byte([("without haproxy", PORT + 1), ("with haproxy", PORT + 11)])
        finally:
            for p in started:
                p.kill()
                p.wait()


main()
