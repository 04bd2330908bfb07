"""What a corpus costs by its size: SIZES (10,300) MB are made of TEXT, its paragraphs over and over in other orders, made
ids by noised-train tokenize, and read by a run of two steps that then goes on for one, and for STEPS. The rate of tokenize
by the clock, then peak memory and seconds of processor time, which says something on a busy machine too; those of a run
are, but for its steps, its start, and what STEPS take beyond it gives the tokens/s, whose ratio to those of the first size
follows. FOLDER (a temporary one) is where all that lies; THREADS (0: all) are those of tokenize."""
import os
import random
import subprocess
import sys
import tempfile
import time

TRAIN = os.path.join(os.environ.get("BUILD", "build"), "noised-train")
SIZES = [int(n) for n in os.environ.get("SIZES", "10,300").split(",")]
THREADS = os.environ.get("THREADS", "0")
BATCH, WINDOW, STEPS = 4, 64, 1000
RUN = f"--config noiseformer-v2-nano --batch {BATCH} --window {WINDOW} --warmup 0 --eval-every 0 --threads 1 --schedule constant"


def measure(*words):
    """Seconds by the clock, of processor time, and peak MB of a noised-train that ends well."""
    began = time.monotonic()
    child = subprocess.Popen([TRAIN, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"noised-train {' '.join(words)}: status {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def go_on(run, steps):
    return measure("pretrain", "--resume", "--out", run, "--steps", str(steps))


def make_text(path, megabytes):
    """By a process of its own: ru_maxrss of a child begins with what its parent holds."""
    if os.fork():
        if os.wait()[1]:
            sys.exit(f"{path}: not written")
        return
    with open(os.environ["TEXT"], "rb") as f:
        paragraphs = [p + b"\n\n" for p in f.read().split(b"\n\n")]
    left, seed = megabytes * 1_000_000, 0
    with open(path, "wb") as out:
        while left > 0:
            random.Random(seed).shuffle(paragraphs)
            seed += 1
            text = b"".join(paragraphs)
            out.write(text if len(text) <= left else text[:text.rindex(b"\n", 0, left) + 1])
            left -= len(text)
    os._exit(0)


def one_size(folder, megabytes, tokenizer, first):
    """Prints a line; tokens/s."""
    text, ids, run = (f"{folder}/{name}{megabytes}" for name in ("text", "ids", "run"))
    make_text(text, megabytes)
    seconds, busy, peak = measure("tokenize", "--data", text, "--out", ids, "--tokenizer", tokenizer, "--threads", THREADS,
                                  "--val", "none")  # the last evaluation of a run reads all that is held out
    os.remove(text)
    _, start, start_peak = measure("pretrain", "--data", ids, "--out", run, "--steps", "2", *RUN.split())
    _, resume, _ = go_on(run, 3)
    _, steps, peak_of_run = go_on(run, 3 + STEPS)
    rate = STEPS * BATCH * WINDOW / (steps - resume)
    print(f"| {megabytes} | {megabytes / seconds:.1f} | {busy:.1f} | {peak:.0f} | {start:.2f} | {resume:.2f} | "
          f"{rate:.0f} | {rate / (first or rate):.2f} | {max(start_peak, peak_of_run):.0f} |", flush=True)
    return rate


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        tokenizer = f"{folder}/tokenizer.json"
        measure("tokenizer", "--data", os.environ["TEXT"], "--vocab-size", "512", "--out", tokenizer)
        print("| MB of text | tokenize, MB/s | processor s | peak, MB | run of 2 steps, processor s | resumed for 1 | "
              "tokens/s | to the first | peak, MB |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        first = None
        for megabytes in SIZES:
            rate = one_size(folder, megabytes, tokenizer, first)
            first = first or rate


main()
