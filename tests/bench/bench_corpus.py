"""What a corpus costs by its size: SIZES (10,300) MB are made of TEXT, its paragraphs over and over in other orders, made
ids by noised-train tokenize, and read by a run of two steps that then goes on for one. The rate of tokenize by the clock,
then peak memory and seconds of processor time, which says something on a busy machine too; those of a run are, but for
its steps, its start. FOLDER (a temporary one) is where all that lies; THREADS (0: all) are those of tokenize."""
import os
import random
import subprocess
import sys
import tempfile
import time

TRAIN = os.path.join(os.environ.get("BUILD", "build"), "noised-train")
SIZES = [int(n) for n in os.environ.get("SIZES", "10,300").split(",")]
THREADS = os.environ.get("THREADS", "0")
RUN = "--config noiseformer-v2-nano --batch 4 --window 64 --warmup 0 --eval-every 0 --threads 1 --schedule constant"


def measure(*words):
    """Seconds by the clock, of processor time, and peak MB of a noised-train that ends well."""
    began = time.monotonic()
    child = subprocess.Popen([TRAIN, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"noised-train {' '.join(words)}: status {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def make_text(path, paragraphs, megabytes):
    left, seed = megabytes * 1_000_000, 0
    with open(path, "wb") as out:
        while left > 0:
            random.Random(seed).shuffle(paragraphs)
            seed += 1
            for paragraph in paragraphs:
                out.write(paragraph)
                left -= len(paragraph)
                if left <= 0:
                    break


def one_size(folder, megabytes, paragraphs, tokenizer):
    text, ids, run = (f"{folder}/{name}{megabytes}" for name in ("text", "ids", "run"))
    make_text(text, paragraphs, megabytes)
    seconds, busy, peak = measure("tokenize", "--data", text, "--out", ids, "--tokenizer", tokenizer, "--threads", THREADS,
                                  "--val", "none")  # the last evaluation of a run reads all that is held out
    os.remove(text)
    _, start, start_peak = measure("pretrain", "--data", ids, "--out", run, "--steps", "2", *RUN.split())
    _, resume, _ = measure("pretrain", "--resume", "--out", run, "--steps", "3")
    print(f"| {megabytes} | {megabytes / seconds:.1f} | {busy:.1f} | {peak:.0f} | {start:.2f} | {resume:.2f} | "
          f"{start_peak:.0f} |", flush=True)


def main():
    with open(os.environ["TEXT"], "rb") as f:
        paragraphs = [p + b"\n\n" for p in f.read().split(b"\n\n")]
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        tokenizer = f"{folder}/tokenizer.json"
        measure("tokenizer", "--data", os.environ["TEXT"], "--vocab-size", "512", "--out", tokenizer)
        print("| MB of text | tokenize, MB/s | processor s | peak, MB | run of 2 steps, processor s | resumed for 1 | "
              "peak, MB |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        for megabytes in SIZES:
            one_size(folder, megabytes, paragraphs, tokenizer)


main()
