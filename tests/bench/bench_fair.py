#!/usr/bin/env python3
"""How long a small request waits beside a key that takes all it can: build/noised, and beside it OTHER=path/to/noised.

    make bench-fair OTHER=../former/build/noised SECONDS=60 ROUNDS=1

12 threads of key A ask for 4 prompts, 16 answers each, of 400 tokens; key B asks for one token every 0.3 s. Printed are
B's wait and the time of a step meanwhile, that of the clock and that of the processor, which is all threads' together."""
import http.client
import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time

SECONDS = float(os.environ.get("SECONDS", "60"))
ROUNDS = int(os.environ.get("ROUNDS", "1"))
MODEL = os.environ.get("CHECKPOINT", "weights/demo")
THREADS, EVERY = 12, 0.3
GREEDY = {"prompt": ["It was", "The sea", "A man", "In the"], "n": 16, "max_tokens": 400, "ignore_eos": True}
SMALL = {"prompt": "The river", "max_tokens": 1}


def ask(port, key, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST" if body else "GET", path, body and json.dumps(body), {"Authorization": "Bearer " + key})
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


def spent(daemon):
    """Steps, their seconds and the processor's, so far."""
    time.sleep(1.1)  # /metrics are up to a second old
    text = ask(daemon.port, "key-b", "/metrics")[1]
    fields = open(f"/proc/{daemon.pid}/stat").read().rsplit(") ", 1)[1].split()
    return (float(re.search(r"^noised_steps_total (\S+)", text, re.M).group(1)),
            sum(float(s) for s in re.findall(r"^noised_step_phase_seconds_sum\S* (\S+)", text, re.M)),
            (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def measure(program, keys):
    daemon = subprocess.Popen([program, "--model", MODEL, "--port", "0", "--api-key-file", keys],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    daemon.port = int(re.search(r":(\d+)$", daemon.stdout.readline().strip()).group(1))
    over = threading.Event()

    def small():
        return ask(daemon.port, "key-b", "/v1/completions", SMALL)[0]

    def greedy():
        while not over.is_set():
            try:
                if ask(daemon.port, "key-a", "/v1/completions", GREEDY)[0] != 200:
                    time.sleep(0.1)
            except OSError:
                return

    while small() != 200:
        time.sleep(0.05)
    for _ in range(THREADS):
        threading.Thread(target=greedy, daemon=True).start()
    time.sleep(3)
    waits, refused, before, until = [], 0, spent(daemon), time.time() + SECONDS
    while time.time() < until:
        start = time.time()
        refused += small() != 200
        waits.append(1000 * (time.time() - start))
        time.sleep(max(0, EVERY - waits[-1] / 1000))
    n, seconds, processor = (b - a for a, b in zip(before, spent(daemon)))
    over.set()
    daemon.kill()
    daemon.wait()
    step, cuts = 1000 * seconds / n, statistics.quantiles(waits, n=100, method="inclusive")
    print(f"{program}: {len(waits)} waits of B, {refused} refused, p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms; a step "
          f"{step:.0f} ms, of the processor {1000 * processor / n:.0f}; p50 {cuts[49] / step:.1f}, "
          f"p99 {cuts[98] / step:.1f} steps; load {os.getloadavg()[0]:.1f}", flush=True)


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write("key-a\nkey-b\n")
        keys.flush()
        for _ in range(ROUNDS):
            for program in (os.environ.get("OTHER"), os.environ.get("BUILD", "build") + "/noised"):
                if program:
                    measure(program, keys.name)


main()
