"""What saves beside the steps cost: runs of STEPS (13) steps of CONFIG (mha-124m) on TEXT, with a save behind every EVERY (4)
and with none but the first and the last, by turns, ROUNDS (5) times; by each of PROGRAMS (build/noised-train), of which a
second may be one of another commit. Prints medians of seconds by the clock, and what a save adds. WINDOW (64) tokens a
step; FOLDER (a temporary one) is where the runs lie, on the disk that is to be measured."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

STEPS, EVERY, ROUNDS, WINDOW = (int(os.environ.get(name, value))
                                for name, value in (("STEPS", 13), ("EVERY", 4), ("ROUNDS", 5), ("WINDOW", 64)))
PROGRAMS = os.environ.get("PROGRAMS", os.path.join(os.environ.get("BUILD", "build"), "noised-train")).split(",")
CONFIG = os.environ.get("CONFIG", "mha-124m")
ARGS = f"--config {CONFIG} --batch 1 --window {WINDOW} --warmup 2 --val none --eval-every 0 --steps {STEPS}"


def run(program, folder, every):
    """Seconds; the first and the last save are in all of them."""
    out = os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    os.sync()
    began = time.monotonic()
    done = subprocess.run([program, "pretrain", "--data", os.environ["TEXT"], "--tokenizer", f"{folder}/tokenizer.json", "--out",
                           out, "--save-every", str(every), *ARGS.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program}: status {done.returncode}: {done.stderr}")
    return time.monotonic() - began


def main():
    saves = (STEPS - 1) // EVERY
    seconds = {(program, every): [] for program in PROGRAMS for every in (0, EVERY)}
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        subprocess.run([PROGRAMS[0], "tokenizer", "--data", os.environ["TEXT"], "--vocab-size", "4000", "--out",
                        f"{folder}/tokenizer.json"], check=True, stdout=subprocess.DEVNULL)
        for _ in range(ROUNDS):
            for (program, every), of_run in seconds.items():
                of_run.append(run(program, folder, every))
    for program in PROGRAMS:
        without, with_saves = (statistics.median(seconds[program, every]) for every in (0, EVERY))
        spread = " ".join(f"{s:.1f}" for s in sorted(seconds[program, EVERY]))
        print(f"{program}: {without:.1f} s without, {with_saves:.1f} s with {saves} saves ({spread}): "
              f"{(with_saves - without) / saves:+.2f} s a save")


main()
