"""The page of docs/figures/ and its picture, of what bench_all.py has measured."""
import html
import math
import os
import re
import statistics
import textwrap

FOLDER = "docs/figures"
TESTS = ("prefill=512", "decode=1", "decode=8", "decode=32")
OURS = tuple("noised " + d for d in ("f32", "bf16", "int8", "int4"))
TORCH = ("PyTorch f32", "PyTorch bf16")
LLAMA = tuple("llama.cpp " + q for q in ("BF16", "Q8_0", "Q4_0"))
SIZES = {"F32": 4, "BF16": 2, "I8": 1, "I4": 0.5}
COLORS = {"F32": "#1f6fb4", "BF16": "#c2571a", "I8": "#2f8f4e", "I4": "#8a4fb0"}

# Parameters of matrices of that GPT-2, and the bytes of one: codes, and a scale of 64 or 32.
LAYERS, HEAD = 12 * 12 * 768**2, 50304 * 768
I8_BYTES, I4_BYTES = 1 + 4 / 64, 0.5 + 2 / 32


def peak(machine, dtype):
    """G operations/s of a thread. BF16 is multiplied as F32 where that is faster."""
    return max(machine["F32"], machine["BF16"]) if dtype == "BF16" else machine[dtype]


def multiplied(dtype, operations):
    return lambda machine: machine["cores"] * peak(machine, dtype) * 1e9 / operations


def read(weights):
    return lambda machine: machine["read"] * 1e9 / weights


# What is to be reached: figure, whose, the best of whose to divide by, the ratio at each of LEVELS, the last's elsewhere,
# and tokens/s at the machine's limits: products at their peak, or one read of the weights, and nothing else.
LEVELS = ("avx2", "avx512", "avx512bf16", "amx")
AGAINST = [
    ("prefill of 512", "serve", "prefill=512", OURS, TORCH + LLAMA, (1.5, 1.5, 3, 3), multiplied("I8", 2 * LAYERS)),
    ("prefill of 512, bf16", "serve", "prefill=512", OURS[1:2], TORCH + LLAMA, (None, None, 1.5, None),
     multiplied("BF16", 2 * LAYERS)),
    ("one stream, int8", "serve", "decode=1", OURS[2:3], LLAMA[1:2], (1.2, 1.3, 1.5, 1.2), read((LAYERS + HEAD) * I8_BYTES)),
    ("one stream, int4", "serve", "decode=1", OURS[3:4], LLAMA[2:3], (1.2, 1.2, 1.2, 1.2),
     read(LAYERS * I4_BYTES + HEAD * I8_BYTES)),
    ("32 streams, int8", "serve", "decode=32", OURS[2:3], TORCH + LLAMA, (2, 2.5, 2.5, 5),
     multiplied("I8", 2 * (LAYERS + HEAD))),
    ("32 HTTP clients, prompts of 64", "load", "64 tokens/s", OURS, LLAMA, (2, 2.5, 2.5, 5), None),
    ("32 HTTP clients, prompts of 512", "load", "512 tokens/s", OURS, LLAMA, (2, 2.5, 3, 5), None),
    ("training, f32", "training", "124m", OURS[:1], TORCH, (1.5, 1.5, 1.9, 2.5), multiplied("F32", 6 * (LAYERS + HEAD))),
    ("training, bf16", "training", "124m", OURS[1:2], TORCH, (1.5, 1.5, 1.9, 4), multiplied("BF16", 6 * (LAYERS + HEAD))),
]


class Part:
    """Medians of the rounds that count."""

    def __init__(self, kept):
        self.kept, self.rounds = kept, []
        self.rounds = [r["figures"] for r in kept["rounds"] if r["foreign"] <= kept["bound"]]

    def get(self, name, figure):
        values = [r[name][figure] for r in self.rounds if figure in r.get(name, {})]
        return statistics.median(values) if values else None

    def best(self, names, figure):
        return max((v for v in (self.get(n, figure) for n in names) if v), default=None)

    def told(self):
        n, thrown, k = len(self.rounds), len(self.kept["rounds"]) - len(self.rounds), self.kept
        text = f"Medians of {n} round{'s' * (n != 1)} at {k['commit']}, {k.get('date', '')}; {thrown or 'none'} " \
               f"{'was' if thrown == 1 else 'were'} thrown away because others had more than {k['bound']:.0%} of the " \
               "processors."
        if k["slow"]:
            text += f" Ended, because a run took too long: {', '.join(k['slow'])}."
        return text


def number(value, digits=None):
    if value is None:
        return ""
    return f"{value:.{digits if digits is not None else 0 if value >= 100 else 1 if value >= 10 else 2}f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def names_of(part, figures):
    return [n for n in OURS + TORCH + LLAMA if any(part.get(n, f) is not None for f in figures)]


def simple(part, head, figures, digits=None):
    rows = [[n] + [number(part.get(n, f), digits) for f in figures] for n in names_of(part, figures)]
    return table(head, rows)


# ---- sections ----

def serve(p, _):
    return ["## The forward pass", "", "GPT-2 of 124M parameters with random weights, tokens/s. " + p.told(), ""] + \
        simple(p, ["", "prefill 512", "decode, 1 stream", "8", "32"], TESTS)


def training(p, _):
    lines = ["## Training", "", "Steps of AdamW, tokens/s, and the most memory in GiB; start is all until the first step "
             "begins, save all behind the last, in seconds. 124M: 4 windows of 256; small: 6 layers of 384, a vocabulary "
             "of 4,096, 8 windows of 256. bf16 is f32 where the processor is no faster at it. " + p.told(), ""]
    return lines + simple(p, ["", "124M", "memory", "start", "save", "small", "memory"],
                          ["124m", "124m GiB", "124m start", "124m save", "small", "small GiB"])


def load(p, _):
    return ["## HTTP", "", "32 clients, each one request of so many tokens with an answer of 64, clients and server on "
            "the same cores: tokens/s, the time to the first text that 90% stay below and the gap between tokens that 99% "
            "stay below, in ms. " + p.told(), ""] + \
        simple(p, ["", "prompt 64", "first text", "gap", "prompt 512", "first text", "gap"],
               [f"{n} {f}" for n in (64, 512) for f in ("tokens/s", "first p90", "gap p99")])


def points(p, dtype):
    """Of all products: K, outputs, rows, rate."""
    keys = sorted({f for r in p.rounds for f in r.get(dtype, {})}, key=lambda f: [int(x) for x in f.split()])
    return [(*map(int, f.split()), p.get(dtype, f)) for f in keys]


def products(p, machine):
    counts = sorted({rows for d in SIZES for _, _, rows, _ in points(p, d)})
    rows = []
    for d in SIZES:
        for k, outputs in dict.fromkeys((k, o) for k, o, _, _ in points(p, d)):
            rate = {n: v for kk, oo, n, v in points(p, d) if (kk, oo) == (k, outputs)}
            of_peak = f"{rate[max(counts)] / machine['cores'] / peak(machine, d):.0%}" if peak(machine, d) else ""
            rows.append([f"{d}, {k} to {outputs}"] + [number(rate[n]) for n in counts] + [of_peak])
    return ["## Products", "", f"Of all threads, G operations/s by rows, weights from memory, and the share of the peak at "
            f"{max(counts, default=0)} rows. {p.told()}", "", f"![roofline]({slug(machine)}.svg)", ""] + \
        table(["weights"] + [str(n) for n in counts] + ["of the peak"], rows)


def embeddings(p, _):
    rows = []
    for n in names_of(p, ["prefill=512"]):
        rate = p.get(n, "prefill=512") / 128
        cells = [[number(v), f"{v / rate:.2f}"] for v in (p.get(n, f) for f in ("in one request", "one by one"))]
        rows.append([n, number(rate)] + sum(cells, []))
    return ["## Embeddings", "", "Texts of 128 tokens per second: what the forward pass alone would come to, 32 of them in one "
            "request to `/v1/embeddings`, and one by one; each with its share of the first. " + p.told(), ""] + \
        table(["", "forward pass", "in one request", "share", "one by one", "share"], rows)


SECTIONS = {"serve": serve, "training": training, "load": load, "products": products, "embeddings": embeddings}


def reached(parts, machine):
    """What, ours, what it would be at the limits, its target, whether it is met."""
    name = machine["level"].removesuffix("vnni")
    level = LEVELS.index(name) if name in LEVELS else len(LEVELS) - 1
    for what, part, figure, ours, rivals, targets, limit in AGAINST:
        if part in parts:
            a, b = parts[part].best(ours, figure), parts[part].best(rivals, figure)
            if a and b and targets[level]:
                most = limit(machine) / b if limit and limit(machine) else None
                yield what + ", by the best rival's", a / b, most, targets[level], a / b >= targets[level]
    for what in ("start", "save") if "training" in parts else ():
        seconds = parts["training"].get("noised f32", "124m " + what)
        if seconds:
            yield f"training's {what}, 124M, s", seconds, None, 3, seconds <= 3
    if "embeddings" in parts and parts["embeddings"].get(OURS[2], "in one request"):
        share = parts["embeddings"].get(OURS[2], "in one request") / parts["embeddings"].get(OURS[2], "prefill=512") * 128
        yield "embeddings in one request, int8, by the forward pass", share, None, 0.85, share >= 0.85


def targets(parts, machine):
    rows = [[what, f"{value:.2f}", f"{most:.2f}" if most else "", str(target), "met" if met else "not met"]
            for what, value, most, target, met in reached(parts, machine)]
    return ["## Targets", "", "Ratios of the figures above. Of several precisions the best counts. At most: where the matrices' "
            "products ran at the machine's peak, or the weights of one stream were read at its rate, and nothing else took "
            "any time.", ""] + table(["", "reached", "at most", "target", ""], rows) if rows else []


# ---- the picture ----

def picture(p, machine):
    """Rate by intensity, both by logarithms: weights are read once, rows and results are in caches."""
    width, height, left, top, right, bottom = 760, 440, 70, 20, 20, 50
    x0, x1, low = math.log10(0.25), math.log10(2048), 1
    most = max(peak(machine, d) for d in SIZES) * machine["cores"] or max(v for d in SIZES for *_, v in points(p, d))
    high = math.log10(most * 1.6)
    low = math.log10(machine["read"] * 0.25)

    def x(intensity):
        return left + (math.log10(intensity) - x0) / (x1 - x0) * (width - left - right)

    def y(rate):
        return top + (high - math.log10(rate)) / (high - low) * (height - top - bottom)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>']

    def text(at_x, at_y, what, anchor="middle", fill="#333"):
        out.append(f'<text x="{at_x:.0f}" y="{at_y:.0f}" text-anchor="{anchor}" fill="{fill}">{html.escape(what)}</text>')

    def line(a, b, stroke, dash=""):
        out.append(f'<path d="M{x(a[0]):.1f} {y(a[1]):.1f}L{x(b[0]):.1f} {y(b[1]):.1f}" stroke="{stroke}" fill="none"'
                   f'{dash and " stroke-dasharray=" + chr(34) + dash + chr(34)}/>')

    for e in range(math.ceil(low), math.floor(high) + 1):
        line((10**x0, 10**e), (10**x1, 10**e), "#ddd")
        text(left - 6, y(10**e) + 4, f"{10**e:,}", "end")
    for e in range(0, 12):
        line((2**e, 10**low), (2**e, 10**high), "#eee")
        text(x(2**e), height - bottom + 16, f"{2**e:,}")
    text((left + width) / 2, height - 12, "operations for each byte of weights")
    text(left + 6, top + 12, "G operations/s, all threads", "start")
    for i, d in enumerate(SIZES):
        roof = peak(machine, d) * machine["cores"]
        if roof:
            knee = roof / machine["read"]
            line((low_at(machine, low, x0), max(machine["read"] * 10**x0, 10**low)), (knee, roof), "#888")
            line((knee, roof), (10**x1, roof), COLORS[d], "5 3" if i % 2 else "")
        for _, _, rows, rate in points(p, d):
            out.append(f'<circle cx="{x(2 * rows / SIZES[d]):.1f}" cy="{y(rate):.1f}" r="3.5" fill="{COLORS[d]}" '
                       'fill-opacity="0.7"/>')
        text(width - right - 8, height - bottom - 48 + 16 * i, f"{d}: peak {number(roof)}", "end", COLORS[d])
    text(left + 6, top + 28, f"slope: {number(machine['read'])} GB/s", "start")
    return "\n".join(out) + "\n</svg>\n"


def low_at(machine, low, x0):
    return max(10**x0, 10**low / machine["read"])


# ---- all ----

def slug(machine):
    words = re.sub(r"\(family (\S+), model (\S+)\)", r"\1 \2", machine["cpu"])
    return re.sub(r"[^a-z0-9]+", "-", f"{words} {machine['level']}".lower()).strip("-")


def most_read(machine, products):
    """GB/s; the widest product's weights are more than any cache holds, and two operations each."""
    rates = {d: products and products.get(d, "768 50257 1") for d in SIZES}
    return max([machine["read"]] + [rate / 2 * SIZES[d] for d, rate in rates.items() if rate])


def write(machine, kept, has_llama, has_torch):
    parts = {name: Part(k) for name, k in kept.items()}
    parts = {name: p for name, p in parts.items() if p.rounds}
    if not parts:
        return
    machine = machine | {"read": most_read(machine, parts.get("products"))}
    lines = [f"# {machine['cpu']}, level `{machine['level']}`", "", "Written by `make bench-all`, as "
             "[figures.md](../figures.md#a-page-a-processor) tells.", ""]
    lines += table(["cores", "F32", "BF16", "INT8", "memory"],
                   [[str(machine["cores"])] + [number(machine[d]) for d in ("F32", "BF16", "I8")] + [number(machine["read"])]])
    lines += ["Limits: multiply-adds in registers, G operations/s of a thread; GB/s that all threads read, "
              "by plain loads or for products of one row, whichever is more.", ""]
    missing = [n for n, there in (("PyTorch", has_torch), ("llama.cpp", has_llama)) if not there]
    if missing:
        lines += [f"Not on this machine, so left out: {', '.join(missing)}.", ""]
    for name, section in SECTIONS.items():
        if name in parts:
            lines += section(parts[name], machine)
    lines += targets(parts, machine)
    os.makedirs(FOLDER, exist_ok=True)
    path = f"{FOLDER}/{slug(machine)}"
    with open(path + ".md", "w", encoding="utf-8") as f:
        f.write("\n".join(l if l[:1] in "#|!" else textwrap.fill(l, 120) for l in lines).rstrip() + "\n")
    if "products" in parts:
        with open(path + ".svg", "w", encoding="utf-8") as f:
            f.write(picture(parts["products"], machine))
    print(f"bench-all: {path}.md")
