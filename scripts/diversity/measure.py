"""measure.py RUNS OUT: figures of the texts that ask.py had written, as OUT/frontier.csv and OUT/table.md.

A setting is better than temperature if, at the self-BLEU that it has, the judge gives its tokens more than
temperature's curve has there: that of the same model with its noise off, gain_own, and that of the model
without noise, gain_none, in nats a token, with the 95% interval of a bootstrap over prompts that draws the same
prompts for both. Whether a seed carries a manner is asked of three numbers, how much a text's tokens speak for
each book: F of the seeds, prompts taken out, and its p among permutations of the seeds within prompts."""
import csv
import json
import math
import os
import random
import sys

RESAMPLES, PERMUTATIONS = 1000, 500
FIELDS = ("distinct_1", "distinct_2", "distinct_3", "self_bleu", "edit_distance")


def mean(x):
    return sum(x) / len(x)


def load(runs):
    """-> {member: {setting: entries}}, the temperature of `none` among them."""
    out, folder = {}, os.path.join(runs, "texts")
    for member in sorted(os.listdir(folder)):
        for name in sorted(os.listdir(os.path.join(folder, member))):
            if name.endswith(".json"):
                with open(os.path.join(folder, member, name), encoding="utf-8") as f:
                    out.setdefault(member, {})[name[: -len(".json")]] = json.load(f)["prompts"]
    return out


class Books:
    """Which book a text's tokens speak for: naive Bayes with add-one counts."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            counts = json.load(f)
        self.names = sorted(counts)
        tokens = {t for c in counts.values() for t in c}
        self.log_p = []
        for name in self.names:
            total = sum(counts[name].values()) + len(tokens)
            self.log_p.append({int(t): math.log((counts[name].get(t, 0) + 1) / total) for t in tokens})

    def scores(self, ids):
        """For each book: how much more likely a token is there than in the books on average."""
        raw = [mean([p.get(t, -12.0) for t in ids]) for p in self.log_p]
        return [x - mean(raw) for x in raw]

    def same(self, ids):
        halves = [self.scores(ids[: len(ids) // 2]), self.scores(ids[len(ids) // 2 :])]
        return halves[0].index(max(halves[0])) == halves[1].index(max(halves[1]))


def point(entries, books):
    """Figures of a setting, a list over prompts each."""
    out = {f: [e["diversity"][f] for e in entries] for f in FIELDS}
    for judge in ("judge", "twin"):
        out[judge] = [mean(e[judge]) for e in entries]
    out["same_book"] = [mean([books.same(t) for t in e["texts"]]) for e in entries]
    out["distinct_texts"] = [len({tuple(t) for t in e["texts"]}) / len(e["texts"]) for e in entries]
    return out


def at(x, curve):
    """y of a polyline of (x, y) points; None outside."""
    curve = sorted(curve)
    for (x0, y0), (x1, y1) in zip(curve, curve[1:]):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None


def gain_of(p, temperature, prompts):
    pick = lambda q, f: mean([q[f][i] for i in prompts])
    level = at(pick(p, "self_bleu"), [(pick(q, "self_bleu"), pick(q, "judge")) for q in temperature])
    return None if level is None else pick(p, "judge") - level


def interval(values):
    values = sorted(values)
    return values[int(0.025 * len(values))], values[min(len(values) - 1, int(0.975 * len(values)))]


def bootstrap(f, n, draws):
    """The value of all n prompts and the interval of resampled ones; None where the value is, or half of the others."""
    value = f(range(n))
    some = [f([r.randrange(n) for _ in range(n)]) for r in map(random.Random, range(draws))]
    some = [v for v in some if v is not None]
    return (None, None, None) if value is None or len(some) < draws / 2 else (value, *interval(some))


def f_statistic(values, seeds, n_prompts):
    """Mean square between seeds over that within, prompts' means taken out. values, seeds: a list for each prompt."""
    groups = {}
    for row, own in zip(values, seeds):
        centre = mean(row)
        for v, s in zip(row, own):
            groups.setdefault(s, []).append(v - centre)
    n = sum(map(len, groups.values()))
    between = sum(len(g) * mean(g) ** 2 for g in groups.values()) / (len(groups) - 1)
    within = sum((v - mean(g)) ** 2 for g in groups.values() for v in g) / (n - len(groups) - n_prompts + 1)
    return between / within if within > 0 else 1.0


def manner(entries, books):
    """-> [(book, F, p)]"""
    out = []
    for b, name in enumerate(books.names):
        values = [[books.scores(t)[b] for t in e["texts"]] for e in entries]
        seeds = [e["noise_seeds"] for e in entries]
        told, above, draws = f_statistic(values, seeds, len(entries)), 0, random.Random(1)
        for _ in range(PERMUTATIONS):
            shuffled = [draws.sample(s, len(s)) for s in seeds]
            above += f_statistic(values, shuffled, len(entries)) >= told
        out.append((name, told, (1 + above) / (1 + PERMUTATIONS)))
    return out


def rows_of(data, books):
    points = {m: {s: point(e, books) for s, e in all_.items() if not s.endswith("seeds")} for m, all_ in data.items()}
    temperature = {m: [p for s, p in settings.items() if s.endswith(",0")] for m, settings in points.items()}
    for member, settings in points.items():
        for (t, scale), p in sorted((tuple(map(float, s.split(","))), p) for s, p in settings.items()):
            n = len(p["judge"])
            row = {"member": member, "temperature": t, "noise_scale": scale}
            for f in (*FIELDS, "distinct_texts", "same_book", "judge", "twin"):
                row[f], low, high = bootstrap(lambda i, f=f: mean([p[f][k] for k in i]), n, RESAMPLES)
                if f in ("self_bleu", "judge"):
                    row |= {f + "_low": low, f + "_high": high}
            for base, curve in (("own", temperature[member]), ("none", temperature["none"])):
                gain = (bootstrap(lambda i, c=curve: gain_of(p, c, i), n, RESAMPLES) if scale > 0 else [None] * 3)
                row |= dict(zip((f"gain_{base}", f"gain_{base}_low", f"gain_{base}_high"), gain))
            yield row


def gain_text(r, base):
    told = [r[f"gain_{base}{end}"] for end in ("", "_low", "_high")]
    return "" if told[0] is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*told)


def is_better(r):
    gains = [(r[f"gain_{b}"], r[f"gain_{b}_low"]) for b in ("own", "none")]
    return all(g is not None and g >= 0.05 and low > 0 for g, low in gains)


def write_table(f, rows, manners):
    f.write("| noise | T | scale | different texts | self-BLEU | judge, nats a token | gain on its own temperature "
            "| on that of no noise | same book |\n|---|---|---|---|---|---|---|---|---|\n")
    for r in rows:
        f.write(f"| {r['member']} | {r['temperature']:g} | {r['noise_scale']:g} | {r['distinct_texts']:.2f} | "
                f"{r['self_bleu']:.3f} | {r['judge']:.3f} | {gain_text(r, 'own')} | {gain_text(r, 'none')} | "
                f"{r['same_book']:.2f} |\n")
    better = {}
    for r in rows:
        if is_better(r):
            better.setdefault((r["member"], r["temperature"]), []).append(r)
    winners = [f"{m} at T {t:g}" for (m, t), points in better.items() if len(points) >= 3]
    f.write("\nBetter than both temperatures (0.05 nats a token at equal self-BLEU, the interval clear of 0, at three "
            f"points of a curve): {', '.join(winners) or 'none'}.\n")
    f.write("\n| noise, T 0.7 | scale | book | F between seeds | p |\n|---|---|---|---|---|\n")
    for member, setting, told in manners:
        for book, value, p in told:
            f.write(f"| {member} | {setting.split(',')[1]} | {book} | {value:.2f} | {p:.3f} |\n")


def main():
    runs, out = sys.argv[1:]
    books, data = Books(os.path.join(runs, "books.json")), load(runs)
    rows = list(rows_of(data, books))
    with open(os.path.join(out, "frontier.csv"), "w", newline="", encoding="utf-8") as f:
        table = csv.DictWriter(f, rows[0], lineterminator="\n")
        table.writeheader()
        for r in rows:
            table.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in r.items()})
    manners = [(m, s, manner(e, books)) for m, all_ in data.items() for s, e in all_.items() if s.endswith("seeds")]
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as f:
        write_table(f, rows, manners)


if __name__ == "__main__":
    main()
