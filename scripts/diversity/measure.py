"""measure.py RUNS OUT: figures of the texts that ask.py had written, as OUT/frontier.csv and OUT/table.md.

A setting is better than temperature if, at the self-BLEU that it has, the judge gives its tokens more than
temperature's curve has there: that of the same model with its noise off, judge_own, and that of the model
without noise, judge_none, in nats a token, with the 95% interval of a bootstrap over prompts that draws the same
prompts for both. It is steadier if the judge gives its tokens no less and more of its texts sound, in both halves, most
like the same book to a classifier (same_book_own, same_book_none). Whether a seed carries a style is asked of the
log-probability of each book given a text: what share of its variance between the texts of a prompt the seeds explain,
and p among permutations of the seeds within prompts."""
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


def labels(runs):
    with open(os.path.join(runs, "reader", "config.json"), encoding="utf-8") as f:
        names = json.load(f)["id2label"]
    return [names[str(i)] for i in range(len(names))]


def accuracy(runs):
    """The classifier's, on passages that nothing was trained on."""
    with open(os.path.join(runs, "reader", "log.jsonl"), encoding="utf-8") as f:
        return max(x["dev"]["accuracy"] for x in map(json.loads, f) if "dev" in x)


def same_book(parts):
    """Whether both halves of a text sound most like the same book."""
    first, second, _ = parts
    return first.index(max(first)) == second.index(max(second))


def point(entries):
    """Figures of a setting, a list over prompts each."""
    out = {f: [e["diversity"][f] for e in entries] for f in FIELDS}
    for judge in ("judge", "twin"):
        out[judge] = [mean(e[judge]) for e in entries]
    out["same_book"] = [mean([same_book(t) for t in e["books"]]) for e in entries]
    out["distinct_texts"] = [len({tuple(t) for t in e["texts"]}) / len(e["texts"]) for e in entries]
    return out


def at(x, curve):
    """y of a polyline of (x, y) points; None outside."""
    curve = sorted(curve)
    for (x0, y0), (x1, y1) in zip(curve, curve[1:]):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return None


def gain_of(p, what, temperature, prompts, scale=lambda bleu: bleu):
    """What p has more of it than temperature has where its texts differ as much. scale: in which its curve is straight."""
    pick = lambda q, f: mean([q[f][i] for i in prompts])
    bleu = lambda q: scale(pick(q, "self_bleu"))
    level = at(bleu(p), [(bleu(q), pick(q, what)) for q in temperature])
    return None if level is None else pick(p, what) - level


def interval(values):
    values = sorted(values)
    return values[int(0.025 * len(values))], values[min(len(values) - 1, int(0.975 * len(values)))]


def bootstrap(f, n, draws):
    """The value of all n prompts and the interval of resampled ones; None where the value is, or half of the others."""
    value = f(range(n))
    some = [f([r.randrange(n) for _ in range(n)]) for r in map(random.Random, range(draws))]
    some = [v for v in some if v is not None]
    return (None, None, None) if value is None or len(some) < draws / 2 else (value, *interval(some))


def explained(values, seeds):
    """Share of the variance that is between seeds, prompts' means taken out. values, seeds: a list for each prompt."""
    groups, total = {}, 0
    for row, own in zip(values, seeds):
        centre = mean(row)
        for v, s in zip(row, own):
            groups.setdefault(s, []).append(v - centre)
            total += (v - centre) ** 2
    return sum(len(g) * mean(g) ** 2 for g in groups.values()) / total if total > 0 else 0.0


def style(entries, names):
    """-> [(book, share of the variance, what chance would explain, p)]"""
    out = []
    for b, name in enumerate(names):
        values = [[math.log(max(whole[b], 1e-4)) for _, _, whole in e["books"]] for e in entries]
        seeds = [e["noise_seeds"] for e in entries]
        told, draws, chance = explained(values, seeds), random.Random(1), []
        for _ in range(PERMUTATIONS):
            chance.append(explained(values, [draws.sample(s, len(s)) for s in seeds]))
        out.append((name, told, mean(chance), (1 + sum(c >= told for c in chance)) / (1 + PERMUTATIONS)))
    return out


def rows_of(data):
    points = {m: {s: point(e) for s, e in all_.items() if not s.endswith("seeds")} for m, all_ in data.items()}
    temperature = {m: [p for s, p in settings.items() if s.endswith(",0")] for m, settings in points.items()}
    for member, settings in points.items():
        for (t, scale), p in sorted((tuple(map(float, s.split(","))), p) for s, p in settings.items()):
            n = len(p["judge"])
            row = {"member": member, "temperature": t, "noise_scale": scale}
            for f in (*FIELDS, "distinct_texts", "same_book", "judge", "twin"):
                row[f], low, high = bootstrap(lambda i, f=f: mean([p[f][k] for k in i]), n, RESAMPLES)
                if f in ("self_bleu", "judge"):
                    row |= {f + "_low": low, f + "_high": high}
            for what in ("judge", "same_book"):
                for base, curve in (("own", temperature[member]), ("none", temperature["none"])):
                    gain = [None] * 3
                    if scale > 0:
                        gain = bootstrap(lambda i, w=what, c=curve: gain_of(p, w, c, i), n, RESAMPLES)
                    name = f"{what}_{base}"
                    row |= dict(zip((name, name + "_low", name + "_high"), gain))
            yield row


def gain_text(r, gain):
    told = [r[gain + end] for end in ("", "_low", "_high")]
    return "" if told[0] is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*told)


def is_better(r):
    gains = [(r[f"judge_{b}"], r[f"judge_{b}_low"]) for b in ("own", "none")]
    return all(g is not None and g >= 0.05 and low > 0 for g, low in gains)


def is_steadier(r):
    gains = [(r[f"judge_{b}_high"], r[f"same_book_{b}_low"]) for b in ("own", "none")]
    return all(high is not None and high >= 0 and low is not None and low > 0 for high, low in gains)


def winners(rows, test):
    """Curves of which three points pass the test."""
    curves = {}
    for r in filter(test, rows):
        curves.setdefault((r["member"], r["temperature"]), []).append(r)
    return ", ".join(f"{m} at T {t:g}" for (m, t), points in curves.items() if len(points) >= 3) or "none"


def write_table(f, rows, styles, read):
    f.write("| noise | T | scale | different texts | self-BLEU | judge, nats a token | gain on its own temperature "
            "| on that of no noise | same book | gain on its own temperature | on that of no noise |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|\n")
    for r in rows:
        f.write(f"| {r['member']} | {r['temperature']:g} | {r['noise_scale']:g} | {r['distinct_texts']:.2f} | "
                f"{r['self_bleu']:.3f} | {r['judge']:.3f} | {gain_text(r, 'judge_own')} | {gain_text(r, 'judge_none')} | "
                f"{r['same_book']:.2f} | {gain_text(r, 'same_book_own')} | {gain_text(r, 'same_book_none')} |\n")
    f.write("\nBetter than both temperatures (0.05 nats a token at equal self-BLEU, the interval clear of 0, at three "
            f"points of a curve): {winners(rows, is_better)}.\n")
    f.write("\nSteadier than both (no fewer nats, and more texts of one book at equal self-BLEU, the interval clear of "
            f"0, at three points of a curve): {winners(rows, is_steadier)}.\n")
    f.write(f"\nThe classifier names the book of {100 * read:.0f}% of passages held out.\n")
    f.write("\n| noise, T 0.7 | scale | book | variance between seeds | by chance | p |\n|---|---|---|---|---|---|\n")
    for member, setting, told in styles:
        for book, share, chance, p in told:
            f.write(f"| {member} | {setting.split(',')[1]} | {book} | {share:.3f} | {chance:.3f} | {p:.3f} |\n")


def main():
    runs, out = sys.argv[1:]
    names, data = labels(runs), load(runs)
    rows = list(rows_of(data))
    with open(os.path.join(out, "frontier.csv"), "w", newline="", encoding="utf-8") as f:
        table = csv.DictWriter(f, rows[0], lineterminator="\n")
        table.writeheader()
        for r in rows:
            table.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in r.items()})
    styles = [(m, s, style(e, names)) for m, all_ in data.items() for s, e in all_.items() if s.endswith("seeds")]
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as f:
        write_table(f, rows, styles, accuracy(runs))


if __name__ == "__main__":
    main()
