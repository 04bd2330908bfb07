#!/usr/bin/env python3
"""What serving leaves of the bare engine: build/noised under bench-load by turns with bench-serve, which has no HTTP, no
sampling and no clients on its cores, and computes as many prompts and tokens in batches as large.

    make bench-bare CHECKPOINT=dir OTHER=../former/build/noised CLIENTS=1,8,32 PROMPTS=64,512 ROUNDS=3

A row for each prompt, number of clients and server: tokens/s of REQUESTS answers (32) of TOKENS tokens (64), their share
of the bare engine's, the same of processor time (its by ours), which other work on the machine says little about when
both have one thread (OMP_NUM_THREADS=1); the p90 of the time to the first text, the gaps' p99 in ms and in mean steps of
the run. BUSY=1 puts so many programs that never rest beside all of it; URL2 is another server. ARGS go to both noised.
Medians of the rounds."""
import glob
import os
import re
import resource
import statistics
import subprocess
import time
import urllib.request

BUILD = os.environ.get("BUILD", "build")
MODEL = os.environ.get("CHECKPOINT", "weights/demo")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
REQUESTS, TOKENS = os.environ.get("REQUESTS", "32"), os.environ.get("TOKENS", "64")


class Noised:
    def __init__(self, program):
        self.name = program
        self.process = subprocess.Popen([program, "--model", MODEL, "--port", "0", *os.environ.get("ARGS", "").split()],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = next(line.split()[-1] for line in self.process.stdout if line.startswith("listening on ")).strip("/")
        while subprocess.run([f"{BUILD}/noised", "--probe", self.url + "/health"], stderr=subprocess.DEVNULL).returncode:
            time.sleep(0.1)

    def steps(self):
        """So far, and their seconds without those of waiting."""
        time.sleep(1.1)  # /metrics are up to a second old
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        phases = dict(re.findall(r'^noised_step_phase_seconds_sum\{phase="(\w+)"\} (\S+)', text, re.M))
        return (float(re.search(r"^noised_steps_total (\S+)", text, re.M).group(1)),
                sum(float(s) for name, s in phases.items() if name != "wait"))

    def processor(self):
        return sum(int(open(f).read().split()[0]) for f in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat")) / 1e9

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Url:
    def __init__(self, url):
        self.name = self.url = url

    def steps(self):
        return None

    def processor(self):
        return float("nan")

    def stop(self):
        pass


def bare(prompt, clients):
    """Tokens/s, and processor seconds a token: what a second round takes more."""
    test, spent = f"answer={clients}x{prompt}x{TOKENS}", []
    for rounds in ("1", "2"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([f"{BUILD}/bench-serve", rounds, test, MODEL], check=True, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return float(out.split()[-2]), (spent[1] - spent[0]) / (int(clients) * int(TOKENS))


def loaded(server, prompt, clients, seed):
    """Tokens/s, processor seconds a token, p90 of the first text in ms, the gaps' p99 in ms and in steps."""
    before, processor = server.steps(), server.processor()
    out = subprocess.run([f"{BUILD}/bench-load", "--url", server.url, "--clients", str(clients), "--requests", REQUESTS,
                          "--prompt-tokens", str(prompt), "--max-tokens", TOKENS, "--same", "no", "--seed", str(seed)],
                         check=True, text=True, stdout=subprocess.PIPE).stdout
    row = out.splitlines()[-1].split()
    if "x" in row:
        raise SystemExit(out)
    processor = (server.processor() - processor) / (int(REQUESTS) * int(TOKENS))
    after, p99 = server.steps(), float(row[11])
    mean = 1000 * (after[1] - before[1]) / (after[0] - before[0]) if before else float("nan")
    return float(row[3]), processor, float(row[7]), p99, p99 / mean


def main():
    prompts, clients = (os.environ.get(k, d).split(",") for k, d in (("PROMPTS", "64,512"), ("CLIENTS", "1,8,32")))
    programs = [p for p in (os.environ.get("OTHER"), f"{BUILD}/noised") if p]
    servers = [Noised(p) for p in programs] + [Url(u) for u in os.environ.get("URL2", "").split()]
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(int(os.environ.get("BUSY", "0")))]
    try:
        print("prompt clients  tok/s  of bare  by processor  first p90 ms  gap p99 ms  in steps  server", flush=True)
        for p, c in ((p, c) for p in prompts for c in clients):
            seen, engine = {s: [] for s in servers}, []
            for i in range(ROUNDS):
                engine.append(bare(p, c))
                for s in servers:
                    seen[s].append(loaded(s, p, c, i + 1))
            print(f"{p:>6} {c:>7} {statistics.median(e[0] for e in engine):6.0f} {1:8.2f} {1:13.2f} {'bench-serve':>48}",
                  flush=True)
            for s, rows in seen.items():
                rate, _, first, gap, steps = (statistics.median(column) for column in zip(*rows))
                share = statistics.median(row[0] / e[0] for row, e in zip(rows, engine))
                processor = statistics.median(e[1] / row[1] for row, e in zip(rows, engine))
                print(f"{p:>6} {c:>7} {rate:6.0f} {share:8.2f} {processor:13.2f} {first:13.0f} {gap:11.1f} {steps:9.2f}  "
                      f"{s.name}", flush=True)
    finally:
        for b in busy:
            b.kill()
        for s in servers:
            s.stop()


main()
