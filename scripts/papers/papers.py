"""What the experiments of the papers have in common: runs that go on where they were interrupted, tables, pictures.

An experiment is a script here that writes docs/papers/NAME.md and NAME.svg. Its runs lie in runs/papers/NAME; what is
finished there is not trained again. Only Python's standard library is used.
"""
import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
RUNS = os.environ.get("RUNS", os.path.join(TOP, "runs", "papers"))
DOCS = os.environ.get("DOCS", os.path.join(TOP, "docs", "papers"))
SEEDS = int(os.environ.get("SEEDS", "3"))
# Of a qualitative palette that colour-blind people can tell apart (Okabe and Ito 2008).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"]


def say(text):
    print(f"papers: {text}", file=sys.stderr, flush=True)


def data(folder, *files, page):
    """The folder DATA names, which must hold these files; the message says where they come from."""
    root = os.environ.get("DATA", "")
    missing = [f for f in files if not os.path.exists(os.path.join(root, folder, f))]
    if not root or missing:
        sys.exit(f"papers: DATA=FOLDER must name a folder with {folder}/{{{','.join(missing or files)}}}, from {page}")
    return os.path.join(root, folder)


def run(*args):
    """A command of ours; a failure ends the experiment, to be gone on with later. Ctrl-C reaches it too: it saves."""
    child = subprocess.Popen(list(map(str, args)), stdout=sys.stderr)
    try:
        code = child.wait()
    except KeyboardInterrupt:
        child.wait()
        sys.exit("papers: interrupted; the same command goes on from there")
    if code:
        sys.exit(f"papers: {' '.join(map(str, args))}: status {code}; the same command goes on from there")


def train(command, folder, *args):
    """noised-train COMMAND into runs/papers/FOLDER, begun, gone on with, or found finished. The folder."""
    path = os.path.join(RUNS, folder)
    done = os.path.join(path, "papers-done")
    wanted = json.dumps([command, *map(str, args)])
    if os.path.exists(done):
        if open(done, encoding="utf-8").read() == wanted:
            return path
        shutil.rmtree(path)  # the experiment has changed
    begun = os.path.exists(path) and os.listdir(path)
    say(f"{folder}: {'goes on' if begun else 'begins'}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    program = os.path.join(BUILD, "noised-train")
    run(program, command, "--out", path, *(["--resume"] if begun else args))
    with open(done, "w", encoding="utf-8") as f:
        f.write(wanted)
    return path


def plan(*keys):
    """Of these variables the ones that were given, as make takes them: what a page puts behind its command."""
    return "".join(f' {k}="{os.environ[k]}"' for k in keys if k in os.environ)


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


def times_fewer(curve, other):
    """Of evaluations: how many times fewer `curve` needs to come to the last loss of `other`; NaN: it does not."""
    reached = next((k + 1 for k, loss in enumerate(curve) if loss <= other[-1]), None)
    return len(other) / reached if reached else math.nan


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    """Of a sample: n - 1 below."""
    m = mean(values)
    return math.sqrt(sum((v - m) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0


def told(values, digits=2, unit=1):
    """mean ± deviation"""
    return f"{unit * mean(values):.{digits}f} ± {unit * deviation(values):.{digits}f}"


def student(freedom):
    """Student's t at 97.5%: trainer/report/paired.c, which `noised-train compare` counts by."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        odd, total = freedom % 2, 0.0
        term = math.cos(angle) if odd else 1.0
        for k in range(odd, freedom - 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
        within = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
        low, high = (angle, high) if within < 0.95 else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def difference(a, b):
    """Mean of a - b of paired runs and the half of its 95% interval."""
    d = [x - y for x, y in zip(a, b)]
    half = student(len(d) - 1) * deviation(d) / math.sqrt(len(d)) if len(d) > 1 else math.inf
    return mean(d), half


def verdict(claimed, a, b):
    """Of a claim that a - b has the sign of `claimed`: agrees, does not, or cannot be told from so many seeds."""
    d, half = difference(a, b)
    if abs(d) <= half:
        return "cannot tell at this size"
    return "agrees" if (d > 0) == (claimed > 0) else "does not"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows]) + "\n"


def keep(name, keys, **measures):
    """NAME.csv: what every seed came to, so that a page can be counted again. measures: {key: [of the seeds]} each."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*keys, "seed", *measures])
    for key, values in next(iter(measures.values())).items():
        parts = key if isinstance(key, tuple) else (key,)
        for i in range(len(values)):
            rows.writerow([*parts, i + 1, *(f"{m[key][i]:.6g}" for m in measures.values())])
    write(f"{name}.csv", text.getvalue())


def wrapped(page):
    """Its paragraphs in lines of 120 columns, whatever was put into them."""
    return "\n\n".join(p if p.startswith(("#", "|", "!")) else textwrap.fill(
        p, 120, break_long_words=False, break_on_hyphens=False) for p in page.rstrip("\n").split("\n\n")) + "\n"


def write(name, text):
    os.makedirs(DOCS, exist_ok=True)
    text = wrapped(text) if name.endswith(".md") else text
    path = os.path.join(DOCS, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    say(f"wrote {os.path.relpath(path)}")


# ---- pictures ----


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}</svg>\n')


def ticks(low, high, n=5):
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9) / n))
    step = next(step * k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= n + 1)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, int(math.floor(high / step + 1e-9)) + 1)]


def curves(title, x_label, y_label, lines):
    """lines: {name: [[y of every x] of every seed]}, with x 1, 2, ...; the mean, and a band of one deviation."""
    width, height, left, right, top, bottom = 720, 400, 60, 190, 40, 50
    n = max(len(run) for runs in lines.values() for run in runs)
    low = min(min(r) for runs in lines.values() for r in runs)
    high = max(max(r) for runs in lines.values() for r in runs)
    pad = 0.05 * (high - low or 1)
    low, high = low - pad, high + pad

    def place(x, y):
        return (left + (width - left - right) * (x - 1) / max(n - 1, 1),
                height - bottom - (height - top - bottom) * (y - low) / (high - low))

    out = [f'<text x="{left}" y="24" font-size="15">{escape(title)}</text>']
    for y in ticks(low, high):
        _, v = place(1, y)
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{v:.1f}" y2="{v:.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 6}" y="{v + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in sorted({1, n, *(round(t) for t in ticks(1, n) if 1 <= t <= n)}):
        u, _ = place(x, low)
        out.append(f'<text x="{u:.1f}" y="{height - bottom + 18}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{escape(x_label)}</text>'
               f'<text x="14" y="{top + 60}" transform="rotate(-90 14 {top + 60})">{escape(y_label)}</text>')
    for i, (name, runs) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        columns = [[r[k] for r in runs if k < len(r)] for k in range(max(map(len, runs)))]
        points = [place(k + 1, mean(c)) for k, c in enumerate(columns)]
        upper = [place(k + 1, min(mean(c) + deviation(c), high)) for k, c in enumerate(columns)]
        lower = [place(k + 1, max(mean(c) - deviation(c), low)) for k, c in enumerate(columns)]
        band = " ".join(f"{x:.1f},{y:.1f}" for x, y in upper + lower[::-1])
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polygon points="{band}" fill="{colour}" opacity="0.18"/>'
                   f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<line x1="{width - right + 12}" x2="{width - right + 36}" y1="{top + 8 + 20 * i}" '
                   f'y2="{top + 8 + 20 * i}" stroke="{colour}" stroke-width="3"/>'
                   f'<text x="{width - right + 42}" y="{top + 12 + 20 * i}">{escape(name)}</text>')
    return svg(width, height, "\n".join(out) + "\n")


def bars(title, y_label, groups, lines=()):
    """groups: {group: {name: values of the seeds}}; lines: [(label, y)] drawn across, such as a baseline."""
    names = list(next(iter(groups.values())))
    width, height, left, top, bottom = 720, 380, 60, 60, 60
    values = [v for g in groups.values() for vs in g.values() for v in vs] + [y for _, y in lines]
    low, high = min(0, min(values)), max(values) * 1.08 or 1

    def at(y):
        return height - bottom - (height - top - bottom) * (y - low) / (high - low)

    out = [f'<text x="{left}" y="24" font-size="15">{escape(title)}</text>']
    for y in ticks(low, high):
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{at(y):.1f}" y2="{at(y):.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 6}" y="{at(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    slot = (width - left - 10) / len(groups)
    for g, (group, members) in enumerate(groups.items()):
        bar = slot * 0.8 / len(names)
        for i, name in enumerate(names):
            m, d, x = mean(members[name]), deviation(members[name]), left + slot * (g + 0.1) + bar * i
            out.append(f'<rect x="{x:.1f}" y="{min(at(m), at(0)):.1f}" width="{bar * 0.9:.1f}" '
                       f'height="{abs(at(m) - at(0)):.1f}" fill="{COLOURS[i % len(COLOURS)]}"/>'
                       f'<line x1="{x + bar * 0.45:.1f}" x2="{x + bar * 0.45:.1f}" y1="{at(m - d):.1f}" '
                       f'y2="{at(m + d):.1f}" stroke="#000000"/>')
        out.append(f'<text x="{left + slot * (g + 0.5):.1f}" y="{height - bottom + 18}" '
                   f'text-anchor="middle">{escape(group)}</text>')
    for i, name in enumerate(names):
        out.append(f'<rect x="{left + 150 * i}" y="36" width="12" height="12" fill="{COLOURS[i % len(COLOURS)]}"/>'
                   f'<text x="{left + 150 * i + 18}" y="46">{escape(name)}</text>')
    for label, y in lines:
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{at(y):.1f}" y2="{at(y):.1f}" stroke="#000000" '
                   f'stroke-dasharray="4 3"/><text x="{width - 12}" y="{at(y) - 4:.1f}" '
                   f'text-anchor="end">{escape(label)}</text>')
    out.append(f'<text x="14" y="{top + 80}" transform="rotate(-90 14 {top + 80})">{escape(y_label)}</text>')
    return svg(width, height, "\n".join(out) + "\n")
