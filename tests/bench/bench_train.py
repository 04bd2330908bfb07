"""Training steps side by side: noised-train in f32 and bf16, PyTorch in f32 and under bf16 autocast (when torch can be
imported), llm.c (LLMC=folder where train_gpt2 and its data are; its program is fixed to the 124M shape, 4 x 64).

Every round starts each of them once, one after the other, each for STEPS timed steps; the table has the median over all
steps of all rounds. SHAPES=124m,small  ROUNDS=3  STEPS=4  THREADS=all.
PyTorch runs with a malloc that keeps its memory, without which it is slower."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = {
    "124m": {"layers": 12, "width": 768, "heads": 12, "vocab": 50257, "batch": 4, "positions": 256},
    "small": {"layers": 6, "width": 384, "heads": 6, "vocab": 4096, "batch": 8, "positions": 256},
}
ROUNDS, STEPS = int(os.environ.get("ROUNDS", 3)), int(os.environ.get("STEPS", 4))
THREADS = os.environ.get("THREADS") or str(len(os.sched_getaffinity(0)))
TRAINER = os.path.join(os.environ.get("BUILD", "build"), "noised-train")
LIMIT = float(os.environ["LIMIT"]) if "LIMIT" in os.environ else None  # seconds that a run of a rival may take


def config(s):
    return {"model_type": "noised", "vocab_size": s["vocab"], "hidden_size": s["width"],
            "num_hidden_layers": s["layers"], "num_attention_heads": s["heads"], "num_key_value_heads": s["heads"],
            "head_dim": s["width"] // s["heads"], "max_position_embeddings": s["positions"], "norm": "layernorm",
            "norm_eps": 1e-5, "position": "learned", "rope_theta": 10000.0, "bias": False,
            "tie_word_embeddings": True,
            "mlp": {"activation": "gelu", "gated": False, "intermediate_size": 4 * s["width"]},
            "attention": {"kind": "mha"}, "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "float32"}


class Run(NamedTuple):
    seconds: list  # of the timed steps
    start: float = 0
    save: float = 0
    bytes: int = 0  # of memory, at most


class Ours:
    def __init__(self, precision, folder):
        self.name, self.precision, self.folder = "noised-train " + precision, precision, folder
        self.text, self.tokenizer = os.path.join(folder, "text.txt"), os.path.join(folder, "tokenizer.json")
        if not os.path.exists(self.tokenizer):
            with open(self.text, "w", encoding="utf-8") as f:
                f.writelines(f"{n} men and {n * n} oars\n" for n in range(60000))
            subprocess.run([TRAINER, "tokenizer", "--data", self.text, "--vocab-size", "512", "--out", self.tokenizer],
                           check=True, stdout=subprocess.DEVNULL)

    def run(self, s):
        """Seconds of each timed step, of the start until the first began, and of what came behind the last; bytes."""
        path, out = os.path.join(self.folder, "config.json"), os.path.join(self.folder, "run")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config(s), f)
        shutil.rmtree(out, ignore_errors=True)
        shown, started = [], time.monotonic()
        with subprocess.Popen([TRAINER, "pretrain", "--config", path, "--data", self.text, "--tokenizer", self.tokenizer,
                               "--val", "none", "--out", out, "--steps", str(STEPS + 1), "--batch", str(s["batch"]),
                               "--eval-every", "0", "--save-every", "0", "--precision", self.precision, "--threads",
                               THREADS], stdout=subprocess.PIPE, text=True) as p:
            shown = [time.monotonic() for line in p.stdout if line.startswith("step ")]
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        ended = time.monotonic()
        if p.returncode:
            sys.exit(f"bench_train: {self.name} ended with status {p.returncode}")
        with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as f:
            rates = [json.loads(line)["tokens_per_second"] for line in f]
        shutil.rmtree(out)
        seconds = [s["batch"] * s["positions"] / r for r in rates]
        return Run(seconds[1:], shown[0] - seconds[0] - started, ended - shown[-1], used.ru_maxrss * 1024)


class Torch:
    def __init__(self, precision):
        self.name, self.precision = "PyTorch " + precision, precision

    def run(self, s):
        out = subprocess.run([sys.executable, os.path.join(HERE, "bench_train_torch.py"), json.dumps(s),
                              self.precision, str(STEPS), THREADS], check=True, stdout=subprocess.PIPE,
                             timeout=LIMIT)
        of = json.loads(out.stdout)
        return Run(of["seconds"], bytes=of["bytes"])


class LlmC:
    name = "llm.c, 4 x 64"

    def __init__(self, folder):
        self.folder = folder

    def run(self, s):
        if s is not SHAPES["124m"]:
            return Run([])
        seconds = []
        with subprocess.Popen(["./train_gpt2"], cwd=self.folder, env=os.environ | {"OMP_NUM_THREADS": THREADS},
                              stdout=subprocess.PIPE, text=True, bufsize=1) as p:
            for line in p.stdout:
                if "(took " in line:
                    seconds.append(float(line.split("(took ")[1].split()[0]) / 1000)
                if len(seconds) > STEPS:
                    break
            p.kill()
        return Run([t * s["batch"] * s["positions"] / (4 * 64) for t in seconds[1:]])


def contestants(folder):
    yield Ours("f32", folder)
    yield Ours("bf16", folder)
    if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        yield Torch("f32")
        yield Torch("bf16")
    else:
        print("no PyTorch (Debian: python3-torch): its rows are left out")
    if os.environ.get("LLMC"):
        yield LlmC(os.environ["LLMC"])


def bench(name, s, folder):
    runs = {c: [] for c in contestants(folder)}
    for _ in range(ROUNDS):
        for c, seconds in runs.items():
            seconds += c.run(s).seconds
    tokens = s["batch"] * s["positions"]
    print(f"\n{name}: {s['layers']} layers of {s['width']}, vocabulary {s['vocab']}, {s['batch']} x {s['positions']} "
          f"tokens, {THREADS} threads, AdamW included; {ROUNDS} rounds of {STEPS} steps")
    print(f"{'':20}{'tokens/s':>10}{'best':>10}{'ms':>10}{'against PyTorch f32':>22}")
    base = next((statistics.median(t) for c, t in runs.items() if c.name == "PyTorch f32"), None)
    for c, t in runs.items():
        if not t:
            continue
        m = statistics.median(t)
        ratio = f"{base / m:.2f}" if base else ""
        print(f"{c.name:20}{tokens / m:10.0f}{tokens / min(t):10.0f}{1000 * m:10.0f}{ratio:>22}")
    sys.stdout.flush()


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in os.environ.get("SHAPES", "124m,small").split(","):
            bench(name, SHAPES[name], folder)


if __name__ == "__main__":
    main()
