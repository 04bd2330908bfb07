#!/usr/bin/env python3
"""What connections cost and how long others wait: build/noised, and beside it OTHER=path/to/noised, by turns.

    make bench-http OTHER=../former/build/noised ROUNDS=5

A row each: memory that 3,000 idle connections take (after one answer each), /health/live while 64 connections send
16 KiB of pipelined requests again and again, and processor time of the whole process a token of 16 streams."""
import json
import multiprocessing
import os
import re
import resource
import socket
import statistics
import subprocess
import threading
import time

ROUNDS = int(os.environ.get("ROUNDS", "5"))
MODEL = os.environ.get("CHECKPOINT", "weights/demo")
IDLE, GREEDY, STREAMS, TOKENS = 3000, 64, 16, 128


class Daemon:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "--model", MODEL, "--port", "0", "--max-batch", str(STREAMS)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(re.search(r":(\d+)$", self.process.stdout.readline().strip()).group(1))
        while b" 200 " not in self.ask("/health"):
            time.sleep(0.05)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def ask(self, path, connection=None):
        s = connection or self.connect()
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while b"}" not in answer:
            answer += s.recv(65536)
        if not connection:
            s.close()
        return answer

    def resident(self):
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{self.process.pid}/status").read()).group(1)) / 1024

    def seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def idle_memory(d):
    before = d.resident()
    connections = [d.connect() for _ in range(IDLE)]
    for s in connections:
        d.ask("/health/live", s)
    taken = d.resident() - before
    for s in connections:
        s.close()
    return taken


def flood(d, path):
    """Until it is killed, in a process of its own."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    ahead = 16384 // len(request)

    def one():
        s = d.connect()
        while True:
            s.sendall(request * ahead)
            got = 0
            while got < ahead:
                got += s.recv(1 << 20).count(b"HTTP/1.1 200")

    for _ in range(GREEDY):
        threading.Thread(target=one, daemon=True).start()
    time.sleep(600)


def health_p99(d, path):
    waits, crowd = [], multiprocessing.Process(target=flood, args=(d, path))
    crowd.start()
    time.sleep(0.5)
    until = time.time() + 5
    while time.time() < until or len(waits) < 2:
        start = time.time()
        d.ask("/health/live")
        waits.append(1000 * (time.time() - start))
        time.sleep(0.02)
    crowd.kill()
    crowd.join()
    return statistics.quantiles(waits, n=100, method="inclusive")[98]


def token_cost(d):
    body = json.dumps({"prompt": "It was", "max_tokens": TOKENS, "ignore_eos": True, "stream": True, "seed": 1}).encode()

    def one():
        s = d.connect()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        text = b""
        while b"[DONE]" not in text[-64:]:
            text += s.recv(1 << 16)
        s.close()

    before = d.seconds()
    for _ in range(4):
        threads = [threading.Thread(target=one) for _ in range(STREAMS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    return 1e6 * (d.seconds() - before) / (4 * STREAMS * TOKENS)


MEASURES = {
    f"MiB of {IDLE} idle connections": idle_memory,
    "/health/live p99 ms beside pipelined GET /": lambda d: health_p99(d, "/"),
    "/health/live p99 ms beside pipelined GET /metrics": lambda d: health_p99(d, "/metrics"),
    "processor us a token of 16 streams": token_cost,
}


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * IDLE + 1000), hard))
    programs = [p for p in (os.environ.get("OTHER"), os.environ.get("BUILD", "build") + "/noised") if p]
    print(f"medians of {ROUNDS} rounds by turns: " + " | ".join(programs))
    for name, measure in MEASURES.items():
        seen = {p: [] for p in programs}
        for _ in range(ROUNDS):
            for p in programs:
                d = Daemon(p)
                seen[p].append(measure(d))
                d.stop()
        print(f"{name:52}" + "".join(f"{statistics.median(v):12.1f}" for v in seen.values()), flush=True)


main()
