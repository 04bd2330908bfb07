#!/usr/bin/env python3
"""What serving leaves of the bare engine: build/noised under bench-load by turns with bench-serve, which has no HTTP,
no sampling and no clients on its cores, and computes as many prompts and tokens in batches as large.

    make bench-bare CHECKPOINT=dir OTHER=../former/build/noised CLIENTS=1,8,32 PROMPTS=64,512 ROUNDS=3

A row for each prompt, number of clients and server: tokens/s of REQUESTS answers (by default as many as clients) of
TOKENS tokens (64), their share of the bare engine's; the same of processor time, its by ours, which other work on the
machine says little about when both have one thread (OMP_NUM_THREADS=1); the p90 of the time to the first text, the
gaps' p99 in ms and in mean steps of the run. BUSY=1 puts so many programs that never rest beside all of it; URL2 is
another server. ARGS go to both noised. Medians of the rounds.

When a daemon first writes to a part of its cache, the system must find memory for it, once, and the bare engine has
all of its own by then: so prompts that fill the whole cache, one as large as is needed here, come before the rounds."""
import contextlib
import os
import re
import statistics
import subprocess
import time

from servers import BUILD, Server, daemon

MODEL = os.environ.get("CHECKPOINT", "weights/demo")
ROUNDS, TOKENS = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("TOKENS", "64"))
PROMPTS = [int(n) for n in os.environ.get("PROMPTS", "64,512").split(",")]
CLIENTS = [int(n) for n in os.environ.get("CLIENTS", "1,8,32").split(",")]
CACHE = max(4096, 3 * max(CLIENTS) * (max(PROMPTS) + TOKENS) // 2)


def bare(prompt, clients):
    """Tokens/s, and processor seconds a token."""
    line = subprocess.run([f"{BUILD}/bench-serve", "1", f"answer={clients}x{prompt}x{TOKENS}", MODEL], check=True,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.split()
    return float(line[2]), float(line[4]) / 1e6


def load(server, prompt, clients, requests, tokens, seed):
    """The row of bench-load's table."""
    out = subprocess.run([f"{BUILD}/bench-load", "--url", server.url, "--clients", str(clients), "--requests",
                          str(requests), "--prompt-tokens", str(prompt), "--max-tokens", str(tokens), "--same", "no",
                          "--seed", str(seed)], check=True, text=True, stdout=subprocess.PIPE).stdout
    row = out.splitlines()[-1].split()
    if "x" in row:
        raise SystemExit(out)
    return row


def steps(server):
    """So far, and their seconds without those of waiting."""
    time.sleep(1.1)  # /metrics are up to a second old
    text = server.ask("/metrics")[1].decode()
    phases = dict(re.findall(r'^noised_step_phase_seconds_sum\{phase="(\w+)"\} (\S+)', text, re.M))
    return (float(re.search(r"^noised_steps_total (\S+)", text, re.M).group(1)),
            sum(float(s) for name, s in phases.items() if name != "wait"))


def loaded(server, prompt, clients, seed):
    """Tokens/s, processor seconds a token, p90 of the first text in ms, the gaps' p99 in ms and in steps."""
    requests = int(os.environ.get("REQUESTS") or clients)
    before = steps(server) if server.command else (0, 0)
    processor = server.processor_seconds()
    row = load(server, prompt, clients, requests, TOKENS, seed)
    processor = (server.processor_seconds() - processor) / (requests * TOKENS)
    after, p99 = steps(server) if server.command else (0, float("nan")), float(row[11])
    mean = 1000 * (after[1] - before[1]) / max(after[0] - before[0], 1)
    return float(row[3]), processor, float(row[7]), p99, p99 / mean


def measure(servers, prompt, clients):
    seen, engine = {s: [] for s in servers}, []
    for i in range(ROUNDS):
        engine.append(bare(prompt, clients))
        for s in servers:
            seen[s].append(loaded(s, prompt, clients, i + 1 + 1000 * clients))
    print(f"{prompt:>6} {clients:>7} {statistics.median(e[0] for e in engine):6.0f} {1:8.2f} {1:13.2f} "
          f"{'bench-serve':>48}", flush=True)
    for s, rows in seen.items():
        rate, _, first, gap, mean_steps = (statistics.median(column) for column in zip(*rows))
        share = statistics.median(row[0] / e[0] for row, e in zip(rows, engine))
        processor = statistics.median(e[1] / row[1] for row, e in zip(rows, engine))
        print(f"{prompt:>6} {clients:>7} {rate:6.0f} {share:8.2f} {processor:13.2f} {first:13.0f} {gap:11.1f} "
              f"{mean_steps:9.2f}  {s.command[0] if s.command else s.url}", flush=True)


def main():
    options = ["--kv-tokens", str(CACHE), *os.environ.get("ARGS", "").split()]
    programs = [p for p in (os.environ.get("OTHER"), f"{BUILD}/noised") if p]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(daemon(MODEL, *options, program=p)) for p in programs]
        servers += [Server(None, url) for url in os.environ.get("URL2", "").split()]
        for s in servers:
            load(s, max(PROMPTS), max(CLIENTS), CACHE // max(PROMPTS) + max(CLIENTS), 1, 999)
        for _ in range(int(os.environ.get("BUSY", "0"))):
            stack.callback(subprocess.Popen(["sh", "-c", "while :; do :; done"]).kill)
        print("prompt clients  tok/s  of bare  by processor  first p90 ms  gap p99 ms  in steps  server", flush=True)
        for prompt in PROMPTS:
            for clients in CLIENTS:
                measure(servers, prompt, clients)


main()
