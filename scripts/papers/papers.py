"""What the experiments of the papers have in common: plans, runs that go on where they were interrupted, kept results, pages.

An experiment is a script here. Its runs lie in runs/papers/NAME; what is finished there is not trained again. What every
seed came to is docs/papers/NAME.csv: rows that are there are kept, also where their runs are not, and what a command adds
of the same training is put beside them. NAME.md and NAME.svg are made of that file alone, so that `make papers-check` can
make them again. Only Python's standard library is used.
"""
import concurrent.futures
import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
RUNS = os.environ.get("RUNS", os.path.join(TOP, "runs", "papers"))
DOCS = os.environ.get("DOCS", os.path.join(TOP, "docs", "papers"))
# What says which networks and seeds there are, not how one is trained.
CHOICES = "SEEDS", "FIGURES", "SIZES", "MODES", "SIGMAS", "RATES", "AUGMENTATION", "MODELS", "DEMO"
JOBS = int(os.environ.get("JOBS", len(os.sched_getaffinity(0))))


def say(text):
    print(f"papers: {text}", file=sys.stderr, flush=True)


# ---- runs ----


def data(folder, *files, page):
    """The folder DATA names, which must hold these files; the message says where they come from."""
    root = os.environ.get("DATA", "")
    missing = [f for f in files if not os.path.exists(os.path.join(root, folder, f))]
    if not root or missing:
        sys.exit(f"papers: DATA=FOLDER must name a folder with {folder}/{{{','.join(missing or files)}}}, from {page}")
    return os.path.join(root, folder)


class Diverged(Exception):
    """A training that noised-train refuses to go on with. That is what its network came to."""


def run(*args):
    """A command of ours on one thread, small matrices do not profit from a second; a failure ends the experiment, to be
    gone on with later, but for one that diverges. Ctrl-C reaches it too: it saves."""
    child = subprocess.Popen(list(map(str, args)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        said = child.communicate()[1]
    except KeyboardInterrupt:
        child.wait()
        sys.exit("papers: interrupted; the same command goes on from there")
    sys.stderr.write(said)
    code = child.returncode
    if code and ": the gradient of " in said:
        raise Diverged(said)
    if code:
        sys.exit(f"papers: {' '.join(map(str, args))}: status {code}; the same command goes on from there")


def mark(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def train(command, folder, *args):
    """noised-train COMMAND into runs/papers/FOLDER, begun, gone on with, or found finished; what was begun otherwise is
    removed. The folder; Diverged, again when it is asked for again."""
    path = os.path.join(RUNS, folder)
    done, diverged = (os.path.join(path, f"papers-{how}") for how in ("done", "diverged"))
    plan = path + ".begun"  # the last one; beside the folder, which is the trainer's to make
    wanted = json.dumps([command, *map(str, args)])
    for end in done, diverged:
        if os.path.exists(end):
            if open(end, encoding="utf-8").read() != wanted:
                shutil.rmtree(path)  # the experiment has changed
            elif end == diverged:
                raise Diverged(folder)
            else:
                return path
    begun = os.path.exists(path) and os.listdir(path)
    if begun and not (os.path.exists(plan) and open(plan, encoding="utf-8").read() == wanted):
        shutil.rmtree(path)
        begun = False
    say(f"{folder}: {'goes on' if begun else 'begins'}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mark(plan, wanted)
    program = os.path.join(BUILD, "noised-train")
    try:
        run(program, command, "--out", path, *(["--resume"] if begun else args))
    except Diverged:
        mark(diverged, wanted)
        raise
    mark(done, wanted)
    return path


def place(*names):
    """runs/papers/NAMES, in a folder that is there."""
    path = os.path.join(RUNS, *names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def config(experiment, name, body):
    """Its config.json."""
    path = place(experiment, f"{name}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(body, f)
    return path


def tokenizer(experiment, vocab, *texts):
    """A tokenizer of these texts, learnt once."""
    path = place(experiment, "tokenizer.json")
    if not os.path.exists(path):
        run(os.path.join(BUILD, "noised-train"), "tokenizer", "--vocab-size", vocab, "--out", path,
            *(a for text in texts for a in ("--data", text)))
    return path


def books():
    """The corpus of three public-domain books, fetched from Debian when it is not there; CORPUS (files) takes its place."""
    if os.environ.get("CORPUS"):
        return os.environ["CORPUS"].split()
    folder = os.path.join(TOP, "runs", "corpus")
    run(os.path.join(TOP, "scripts", "corpus.sh"), folder)
    return [os.path.join(folder, f"{name}.txt") for name in ("sherlock", "mobydick", "kjv")]


def results(path):
    with open(os.path.join(path, "results.json"), encoding="utf-8") as f:
        return json.load(f)


def log(path):
    """The lines of log.jsonl."""
    with open(os.path.join(path, "log.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def evaluations(path):
    """The validation losses of a run."""
    return [line["val_loss"] for line in log(path) if "val_loss" in line]


# ---- what is kept ----


def typed(text, like):
    return type(like)(text)


def settings(defaults, environment):
    """The plan: every variable's default, or what the environment says in its place."""
    return {k: typed(environment.get(k, v), v) for k, v in defaults.items()}


def wider(plan, other):
    """The plan with the networks and seeds of another too; None where the other trains them otherwise."""
    if any(plan[k] != other[k] for k in plan if k not in CHOICES):
        return None
    both = lambda a, b: max(a, b) if isinstance(a, int) else " ".join(dict.fromkeys(f"{b} {a}".split()))
    return {k: both(v, other[k]) if k in CHOICES else v for k, v in plan.items()}


class Kept:
    """NAME.csv: behind the command with its plan a row for every seed of every network. A network is named by the columns
    `keys`, as a tuple, or as one word where that is all; a measure is a number, or a curve: numbers with spaces."""

    def __init__(self, plan, keys, rows):
        self.plan, self.keys, self.rows = plan, keys, rows  # rows: [{column: text}]

    @classmethod
    def parse(cls, text, keys, defaults):
        first, rest = text.split("\n", 1)
        words = dict(w.split("=", 1) for w in shlex.split(first)[3:])
        return cls(settings(defaults, words), keys, list(csv.DictReader(io.StringIO(rest, newline=""))))

    def text(self, command):
        out = io.StringIO()
        out.write(f"# make {command}" + "".join(f" {k}={shlex.quote(str(v))}" for k, v in self.plan.items()) + "\n")
        columns = dict.fromkeys(c for row in self.rows for c in row)
        table = csv.DictWriter(out, columns, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        return out.getvalue()

    def key(self, row):
        parts = tuple(row[k] for k in self.keys)
        return parts if len(parts) > 1 else parts[0]

    def names(self):
        return list(dict.fromkeys(map(self.key, self.rows)))

    def seeds(self, measure, key):
        """{seed: the measure}"""
        return {int(r["seed"]): float(r[measure]) for r in self.rows if self.key(r) == key and r.get(measure)}

    def diverged(self, key):
        """How many of its seeds did."""
        return sum(self.key(r) == key and bool(r.get("diverged")) for r in self.rows)

    def values(self, measure, key):
        return list(self.seeds(measure, key).values())

    def pairs(self, measure, a, b):
        """The measure of two networks for the seeds that both have."""
        a, b = self.seeds(measure, a), self.seeds(measure, b)
        both = sorted(set(a) & set(b))
        return [a[s] for s in both], [b[s] for s in both]

    def curves(self, key, measure="curve"):
        return [[float(x) for x in r[measure].split()] for r in self.rows if self.key(r) == key and r.get(measure)]

    def counts(self):
        """How many seeds each network has."""
        return [len({r["seed"] for r in self.rows if self.key(r) == key}) for key in self.names()]


# ---- pages ----


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows]) + "\n"


def wrapped(page):
    """Its paragraphs in lines of 120 columns, whatever was put into them."""
    return "\n\n".join(p if p.startswith(("#", "|", "!")) else textwrap.fill(
        p, 120, break_long_words=False, break_on_hyphens=False) for p in page.rstrip("\n").split("\n\n")) + "\n"


def write(documents):
    """{file: text} into DOCS."""
    os.makedirs(DOCS, exist_ok=True)
    for name, text in documents.items():
        with open(os.path.join(DOCS, name), "w", encoding="utf-8") as f:
            f.write(text)


def outcome(job):
    """What a training came to; no measure where it diverged."""
    try:
        return job.result()
    except Diverged:
        return {"diverged": 1}


class Experiment:
    """docs/papers/NAME.{csv,md} and pictures.

    keys        the columns that name a network
    plan        what the environment may change: {variable: default}; SEEDS is one of them
    begin       (plan) -> (the keys of all networks, a function that trains one: (key, seed) -> {column: number or curve})
    page        its text with fields in braces; {command} and {ran} are the plan and what is left of it
    fields      (kept) -> {field: text}
    pictures    (kept) -> {file: SVG, or None where the csv does not tell it}
    end         (plan): makes what the csv cannot hold
    """

    def __init__(self, name, *, keys, plan, begin, page, fields, pictures=lambda kept: {}, end=lambda plan: None):
        self.name, self.keys, self.defaults, self.begin = name, keys, plan, begin
        self.page, self.fields, self.pictures, self.end = page, fields, pictures, end

    def kept(self):
        with open(os.path.join(DOCS, f"{self.name}.csv"), encoding="utf-8", newline="") as f:
            return Kept.parse(f.read(), self.keys, self.defaults)

    def documents(self, kept):
        """{file: text}: all that is made of the csv."""
        wanted, least, most = kept.plan["SEEDS"], min(kept.counts()), max(kept.counts())
        asked = {k: v for k, v in kept.plan.items() if v != self.defaults[k]}
        command = f"make papers-{self.name}" + "".join(f" {k}={shlex.quote(str(v))}" for k, v in asked.items())
        ran = f"{least}" if least == most else f"{least} to {most}"
        ran = f" {ran} of the {wanted} seeds are run; the command goes on with the others." if least < wanted else ""
        page = self.page.format(command=command, ran=ran, **kept.plan, **self.fields(kept))
        drawn = {name: text for name, text in self.pictures(kept).items() if text}
        return {f"{self.name}.md": wrapped(page), **drawn}

    def write(self, text):
        """The csv and what is made of it."""
        write({f"{self.name}.csv": text, **self.documents(Kept.parse(text, self.keys, self.defaults))})

    def row(self, key, seed, measures):
        told = {m: " ".join(f"{x:.5g}" for x in v) if isinstance(v, list) else v if isinstance(v, str) else f"{v:.6g}"
                for m, v in measures.items()}
        return {**dict(zip(self.keys, key if isinstance(key, tuple) else (key,))), "seed": str(seed), **told}

    def known(self, plan):
        """The plan with the networks and seeds that the csv has too, and their rows: {(key, seed): row}. A csv tells of no
        other texts and vectors than the usual ones, so that it does not count beside these."""
        there = os.path.exists(os.path.join(DOCS, f"{self.name}.csv"))
        if not there or os.environ.get("CORPUS") or os.environ.get("VECTORS"):
            return plan, {}
        kept = self.kept()
        both = wider(plan, kept.plan)
        if not both:
            say(f"{self.name}.csv is of another plan: begun anew")
            return plan, {}
        return both, {(kept.key(row), int(row["seed"])): row for row in kept.rows}

    def main(self):
        """All networks of a seed but those in the csv, JOBS at a time, then the next seed; documents are written after every
        seed."""
        plan, known = self.known(settings(self.defaults, os.environ))
        keys, measure = self.begin(plan)
        rows = {(i, seed): known[key, seed] for i, key in enumerate(keys) for seed in range(1, plan["SEEDS"] + 1)
                if (key, seed) in known}
        for seed in range(1, plan["SEEDS"] + 1):
            with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
                jobs = {i: pool.submit(measure, key, seed) for i, key in enumerate(keys) if (i, seed) not in rows}
                try:
                    for i, job in jobs.items():
                        rows[i, seed] = self.row(keys[i], seed, outcome(job))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
            self.write(Kept(plan, self.keys, [rows[at] for at in sorted(rows)]).text(f"papers-{self.name}"))
        self.end(plan)
        say(f"wrote {os.path.join(os.path.relpath(DOCS), self.name)}.md")
