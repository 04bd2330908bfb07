"""Trains the runs of the plan, measures sizes and step times, and finds what is already there.

A run works in RUNS/NAME, where it goes on after an interruption; finished, it is RUNS/NAME.jsonl, its log, and the rest
is removed. Step times are seconds of processor time, which other work on the machine disturbs least.
"""
import concurrent.futures
import fcntl
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading

import plan


def say(text):
    print(f"family: {text}", file=sys.stderr, flush=True)


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def write_text(path, text):
    new = f"{path}.{threading.get_ident()}.new"  # runs side by side write the config that they share
    with open(new, "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(new, path)


def write_json(path, what):
    write_text(path, json.dumps(what, indent=1) + "\n")


class Trainer:
    def __init__(self, runs, build, books, jobs):
        self.runs, self.build, self.books, self.jobs = runs, build, books, jobs
        self.tokenizer = self.path("tokenizer.json")
        os.makedirs(self.path("configs"), exist_ok=True)
        self.lock = open(self.path("lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"family: another one is at work in {runs}")
        self.same_shape()
        if not os.path.exists(self.tokenizer):
            self.command("tokenizer", "--vocab-size", plan.SHAPE["vocab_size"], "--out", self.tokenizer,
                         "--data", *books)
        self.sizes = self.measure()

    def path(self, *names):
        return os.path.join(self.runs, *names)

    def same_shape(self):
        """The names of runs do not tell the shape, so a folder is for one only."""
        path = self.path("shape.json")
        if not os.path.exists(path):
            write_json(path, plan.SHAPE)
        if read_json(path) != plan.SHAPE:
            sys.exit(f"family: the runs in {self.runs} are of another shape, {path} has it: use a folder of its own")

    def command(self, *args):
        """A command of noised-train on one thread; the processor time it took."""
        program = os.path.join(self.build, "noised-train")
        child = subprocess.Popen([program, *map(str, args)], stdout=subprocess.DEVNULL,
                                 env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"family: noised-train {' '.join(map(str, args))}: status {child.returncode}; "
                     "the same command goes on from there")
        return usage.ru_utime + usage.ru_stime

    def probe(self, member, width, steps):
        """A short run on a short text, in RUNS/probe."""
        shutil.rmtree(self.path("probe"), ignore_errors=True)
        write_json(self.path("probe.json"), plan.config(member, width))
        if not os.path.exists(self.path("short.txt")):
            with open(self.books[0], "rb") as f, open(self.path("short.txt"), "wb") as short:
                short.write(f.read(20000))
        return self.command("pretrain", "--config", self.path("probe.json"), "--data", self.path("short.txt"), "--val",
                            "none", "--batch", plan.BATCH, "--steps", steps, "--eval-every", 0, "--tokenizer",
                            self.tokenizer, "--out", self.path("probe"), *member.flags)

    def parameters(self, member, width):
        self.probe(member, width, 1)
        said = subprocess.run([os.path.join(self.build, "noised-weights"), "inspect", self.path("probe")],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        return int(re.search(r"^parameters: (\d+)", said, re.M)[1])

    def fit(self, member, target):
        """Parameters, and the width of the MLP that brings them to the target; they are linear in it."""
        own = self.parameters(member, plan.WIDTH)
        if abs(own - target) <= 0.01 * target:
            return {"parameters": own, "fitted": plan.WIDTH, "fitted_parameters": own}
        slope = self.parameters(member, plan.WIDTH + 1) - own
        width = plan.WIDTH + round((target - own) / slope)
        return {"parameters": own, "fitted": width, "fitted_parameters": self.parameters(member, width)}

    def measure(self):
        """sizes.json, of every member: parameters, fitted width, ms a step in every round, ratio of them to mha's."""
        path = self.path("sizes.json")
        sizes = read_json(path) if os.path.exists(path) else {}
        for m in plan.MEMBERS:
            if m.name not in sizes:
                sizes[m.name] = {**self.fit(m, sizes["mha"]["parameters"] if sizes else self.parameters(m, plan.WIDTH)),
                                 "ms": [], "mha_ms": []}
        # Member after member and round after round, with mha beside each: what slows a moment down slows both.
        steps = 10
        for n in plan.ROUNDS:
            for m in plan.MEMBERS:
                if len(sizes[m.name]["ms"]) <= n:
                    for who, key in ((m, "ms"), (plan.MEMBER["mha"], "mha_ms")):
                        seconds = self.probe(who, plan.WIDTH, 1 + steps) - self.probe(who, plan.WIDTH, 1)
                        sizes[m.name][key].append(1000 * seconds / steps)
        for size in sizes.values():
            size["ratio"] = statistics.median(a / b for a, b in zip(size["ms"], size["mha_ms"]))
        sizes["mha"]["ratio"] = 1
        write_json(path, sizes)
        return sizes

    def train(self, run):
        name, log = plan.run_name(run), self.path(plan.run_name(run) + ".jsonl")
        if os.path.exists(log):
            return
        member = plan.MEMBER[run.config.removesuffix("-fitted")]
        config = self.path("configs", run.config + ".json")
        fitted = run.config != member.name
        write_json(config, plan.config(member, self.sizes[member.name]["fitted"] if fitted else plan.WIDTH))
        # A quarter of the steps is warm-up: with less, it is luck which runs leave the plateau.
        self.command("pretrain", "--resume", "--config", config, "--steps", run.steps, "--warmup", run.steps // 4,
                     "--lr", run.rate, "--seed", run.seed, "--batch", plan.BATCH,
                     "--eval-every", run.steps // plan.EVALUATIONS, "--tokenizer", self.tokenizer,
                     "--out", self.path(name), *member.flags, "--data", *self.books)
        os.replace(self.path(name, "log.jsonl"), log)
        shutil.rmtree(self.path(name))
        say(f"{name}: {self.curve(run)[-1][1]:.3f}")

    def train_all(self, runs):
        """JOBS of them at a time."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                for done in [pool.submit(self.train, r) for r in runs if r]:
                    done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def curve(self, run):
        """(step, validation loss) of every evaluation, or None if the run is not finished."""
        path = self.path(plan.run_name(run) + ".jsonl")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return [(x["step"], x["val_loss"]) for x in lines if "val_loss" in x]

    def rate(self, member):
        """The learning rate that the sweep chose; None before."""
        ends = {r.rate: self.curve(r) for r in plan.sweep(member)}
        if not all(ends.values()):
            return None
        return min(ends, key=lambda rate: ends[rate][-1][1])

    def run(self, protocol, member, seed):
        rate = self.rate(member)
        return rate and plan.protocol_run(protocol, member, rate, seed, self.sizes[member.name])
