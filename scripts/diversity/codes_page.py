"""codes_page.py [--check]: the tables of docs/codes.md between `<!-- codes: CSV -->` and `<!-- end of codes -->`, and beside
every CSV the picture of the same name, made of what codes.py measured; --check (make lint): they are."""
import csv
import os
import re
import sys

import draw
import measure

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
PAGE = os.path.join(DOCS, "codes.md")
PART = re.compile(r"(<!-- codes: (\S+) -->\n).*?(<!-- end of codes -->)", re.DOTALL)


class Figures:
    def __init__(self, path):
        self.values = {}  # {(seed, arm, at, measure): (value, low, high)}
        with open(path, encoding="utf-8", newline="") as f:
            for r in csv.DictReader(f):
                told = tuple(float(r[k]) if r[k] else None for k in ("value", "low", "high"))
                self.values[r["seed"], r["arm"], r["at"], r["measure"]] = told
        self.seeds, self.arms = (list(dict.fromkeys(key[i] for key in self.values)) for i in (0, 1))

    def at(self, what):
        """Where a code's measure was taken, in order: windows or temperatures."""
        return sorted({at for _, arm, at, m in self.values if m == what and arm != "plain"}, key=float)

    def told(self, arm, at, what, digits, ends=True, unit=1, sign="+"):
        """Of all seeds, with their intervals if there are any."""

        def one(seed):
            value, low, high = self.values[seed, arm, at, what]
            say = lambda v: f"{unit * v:{sign}.{digits}f}".replace("-", "−")
            if value is None:
                return "beyond the curve"
            return say(value) + (f" ({say(low)} to {say(high)})" if ends and low is not None else "")

        return ", ".join(map(one, self.seeds))

    def mean(self, arm, at, what):
        """Of the seeds: the value and the ends of its interval."""
        return [measure.mean(v) for v in zip(*(self.values[seed, arm, at, what] for seed in self.seeds))]


def table(figures):
    codes = [a for a in figures.arms if any(arm == a and m == "price" for _, arm, _, m in figures.values)]
    seeds = f"seed{'s' * (len(figures.seeds) > 1)} {', '.join(figures.seeds)}"
    yield "| | " + " | ".join(f"`{a}`, {seeds}" for a in codes) + " |"
    yield "|" + "---|" * (1 + len(codes))
    row = lambda words, cell: f"| {words} | " + " | ".join(map(cell, codes)) + " |"
    for w in figures.at("price"):
        yield row(f"-log mean_z p in windows of {w}, minus `plain`'s, nats a token",
                  lambda a, w=w: figures.told(a, w, "price", 3))
    for w in figures.at("nats"):
        yield row(f"what a window of {w} tells of its component, nats",
                  lambda a, w=w: figures.told(a, w, "nats", 2, sign=""))
        yield row(f"components in use in windows of {w}", lambda a, w=w: figures.told(a, w, "used", 1, sign=""))
    for t in figures.at("gain"):
        yield row(f"gain at temperature {t}", lambda a, t=t: figures.told(a, t, "gain", 2))
    for t in figures.at("gain_log"):
        yield row(f"at {t}, the curve joined in log self-BLEU", lambda a, t=t: figures.told(a, t, "gain_log", 2))
    for t in figures.at("text_bits"):
        yield row(f"what a text tells of its component at {t}, bits", lambda a, t=t: figures.told(a, t, "text_bits", 2, False, sign=""))
    for t in figures.at("book_bits"):
        yield row("what the component tells of the text's book, bits", lambda a, t=t: figures.told(a, t, "book_bits", 2, sign=""))
        yield row("its share of the variance in how much texts sound like a book, least to greatest book, %",
                  lambda a, t=t: figures.told(a, t, "share", 0, unit=100, sign=""))


def points(figures, arm):
    """Means over the seeds, and of the ends of their intervals."""
    for t in sorted({at for _, a, at, m in figures.values if a == arm and m == "self_bleu"}, key=float):
        row = {"told": f"T {t}"}
        for f in ("self_bleu", "judge"):
            row |= dict(zip((f, f + "_low", f + "_high"), figures.mean(arm, t, f)))
        yield row


def picture(figures):
    curves = {a: list(points(figures, a)) for a in figures.arms}
    differ = max(1 - r["self_bleu"] for a, rows in curves.items() if a != "plain" for r in rows)
    curves["plain"] = [r for r in curves["plain"] if 1 - r["self_bleu"] < differ + 0.03]
    names = {a: {"plain": "temperature alone", "branch": "temperature, branch"}.get(a, f"a code, {a}") for a in curves}
    return "\n".join(draw.picture({names[a]: rows for a, rows in curves.items()})) + "\n"


def main():
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    made = {}
    for _, path, _ in PART.findall(page):
        figures = Figures(os.path.join(DOCS, path))
        made[os.path.join(DOCS, path.removesuffix(".csv") + ".svg")] = picture(figures)
        part = "\n".join(table(figures))
        page = PART.sub(lambda m, path=path, part=part: f"{m[1]}\n{part}\n\n{m[3]}" if m[2] == path else m[0], page)
    for path, text in {**made, PAGE: page}.items():
        if "--check" not in sys.argv:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            sys.exit(f"{os.path.relpath(path)} is not what scripts/diversity/codes_page.py makes of its csv (make docs)")


if __name__ == "__main__":
    main()
