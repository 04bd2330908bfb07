"""Training steps of BiLSTM taggers beside PyTorch's: forward, loss and backward over one batch of sentences of 5 to 29
words, packed sequences there, segments here. Every round runs each of them once, one after the other; the table has the
median over all steps of all rounds.  SHAPES=50x8,400x4  SENTENCES=32  ROUNDS=3  STEPS=10  THREADS=all"""
import os
import statistics
import subprocess
import sys
import time

import torch_memory

SENTENCES, ROUNDS, STEPS = (int(os.environ.get(k, d)) for k, d in (("SENTENCES", 32), ("ROUNDS", 3), ("STEPS", 10)))
THREADS = os.environ.get("THREADS") or str(len(os.sched_getaffinity(0)))
BENCH = os.path.join(os.environ.get("BUILD", "build"), "bench-lstm")


def ours(hidden, layers):
    out = subprocess.run([BENCH, str(hidden), str(layers), str(SENTENCES), str(STEPS)], check=True, text=True,
                         env=os.environ | {"OMP_NUM_THREADS": THREADS}, stdout=subprocess.PIPE).stdout
    return [float(x) for x in out.split()]


def theirs(hidden, layers):
    """Runs in a process of its own, as ours does."""
    out = subprocess.run([sys.executable, __file__, "torch", str(hidden), str(layers)], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return [float(x) for x in out.split()]


def torch_steps(hidden, layers):
    torch_memory.keep()
    import torch
    from torch import nn
    torch.set_num_threads(int(THREADS))
    torch.manual_seed(1)
    lstm, out = nn.LSTM(25, hidden, layers, bidirectional=True), nn.Linear(2 * hidden, 13)
    lengths = [5 + 7 * s % 25 for s in range(SENTENCES)]
    x = nn.utils.rnn.pack_sequence([torch.randn(n, 25) for n in lengths], enforce_sorted=False)
    targets = torch.arange(sum(lengths)) % 13
    parameters = [*lstm.parameters(), *out.parameters()]
    for step in range(STEPS + 2):
        started = time.perf_counter()
        for p in parameters:
            p.grad = None
        nn.functional.cross_entropy(out(lstm(x)[0].data), targets).backward()
        if step >= 2:
            print(f"{time.perf_counter() - started:.6f}")


def main():
    for shape in os.environ.get("SHAPES", "50x8,400x4").split(","):
        hidden, layers = (int(n) for n in shape.split("x"))
        runs = {ours: [], theirs: []}
        for _ in range(ROUNDS):
            for contestant, seconds in runs.items():
                seconds += contestant(hidden, layers)
        a, b = (statistics.median(s) for s in runs.values())
        print(f"{shape}, {SENTENCES} sentences, {THREADS} threads: ours {1e3 * a:.1f} ms a step (best "
              f"{1e3 * min(runs[ours]):.1f}), PyTorch {1e3 * b:.1f} (best {1e3 * min(runs[theirs]):.1f}): "
              f"{b / a:.2f} times its speed", flush=True)


if sys.argv[1:2] == ["torch"]:
    torch_steps(int(sys.argv[2]), int(sys.argv[3]))
else:
    main()
