"""claims.py [--check]: the rows of docs/papers/README.md that kept runs decide, counted from them.

A row is known by its claim; --check (make lint) fails where it says anything else than the runs do.
"""
import csv
import math
import os
import sys

import papers
import weight_noise

PAGE = os.path.join(papers.TOP, "docs", "papers", "README.md")
FAMILY = "family/runs.csv", "val_loss"


def by_sign(sign):
    return lambda a, b: papers.verdict(sign, a, b).removesuffix(" at this size")


def by_half_of_20_points(a, b):
    return weight_noise.above(0.1, a, b).removesuffix(" at this size")


def values(source, where):
    """What every seed came to, in their order."""
    path, measure = source
    with open(os.path.join(papers.TOP, "docs", path), encoding="utf-8", newline="") as f:
        runs = {int(r["seed"]): float(r[measure]) for r in csv.DictReader(f) if where.items() <= r.items()}
    if not runs:
        sys.exit(f"docs/{path} has no run with {where}")
    return [runs[seed] for seed in sorted(runs)]


def paired(judge, digits, unit, *comparisons):
    """What a seed of the first came to minus what the same seed of the second did: (texts, verdicts)."""
    told, verdicts = [], []
    for source, first, second, words in comparisons:
        a, b = values(source, first), values(source, second)
        d, half = papers.difference(a, b)
        told.append(f"{unit * d:+.{digits}f} ± {unit * half:.{digits}f}{words}")
        verdicts.append(judge(a, b))
    return told, verdicts


def family(member, other, protocol="own", words=""):
    return FAMILY, {"protocol": protocol, "member": member}, {"protocol": protocol, "member": other}, words


def trec(sigma):
    size = {"size": "narrowshallow"}
    return (("papers/trec.csv", "accuracy"), {**size, "mode": "layer-before", "sigma": sigma}, {**size, "mode": "none"},
            f" at sigma {sigma}")


def noble(page, measure, words="", **where):
    return (f"papers/{page}.csv", measure), {"network": "NOBLE", **where}, {"network": "plain", **where}, words


def zero_shot():
    """SAS minus MHA task by task; each was trained once, so that the questions are all that an interval can be of."""
    path = "papers/zero-shot.csv"
    with open(os.path.join(papers.TOP, "docs", path), encoding="utf-8", newline="") as f:
        tasks = sorted({r["task"] for r in csv.DictReader(f)})
    points, clear = [], []
    for task in tasks:
        (a, x), (b, y) = ([values((path, m), {"task": task, "network": n})[0] for m in ("score", "stderr")]
                          for n in ("SAS", "MHA"))
        points.append(100 * (a - b))
        if abs(a - b) > 1.96 * math.hypot(x, y):
            clear.append("agrees" if a > b else "does not")
    return [f"{min(points):+.1f} to {max(points):+.1f} points by task, both at chance"], clear or ["cannot tell"]


# claim, its number, page, what the runs say
CLAIMS = [
    ("validation loss: symmetric above plain attention", "about +0.07", "",
     paired(by_sign(1), 3, 1, family("symmetric", "mha"))),
    ("V1 above symmetric", "+0.038", "", paired(by_sign(1), 3, 1, family("noiseformer-v1", "symmetric"))),
    ("V2 below symmetric", "−0.008", "", paired(by_sign(-1), 3, 1, family("noiseformer-v2", "symmetric"))),
    ("loss below plain attention", "−0.049", "",
     paired(by_sign(-1), 3, 1, family("sas-k5", "mha"), family("sas-k5", "mha", "parameters", " at equal parameters"))),
    ("zero-shot questions", "+1.58 to +2.83 points", "zero-shot.md", zero_shot()),
    ("causal loss below its host's", "−0.040, 5.7% more parameters", "",
     paired(by_sign(-1), 3, 1, family("noble", "mha"), family("noble", "mha", "parameters", " at equal parameters"))),
    ("masked language model (Table 2)", "−0.021 to −0.063", "mlm.md", paired(by_sign(-1), 3, 1, noble("mlm", "loss"))),
    ("vision transformer, training loss (Table 3)", "−0.031; with Mixup and CutMix −0.039", "vit.md",
     paired(by_sign(-1), 3, 1, noble("vit", "loss", "; not run", augmentation="none"))),
    ("the same, top-1", "+0.14; +0.11", "vit.md",
     paired(by_sign(1), 2, 1, noble("vit", "top1", "; not run", augmentation="none"))),
    ("image tokens (Table 4)", "−0.024 to −0.041", "image-tokens.md",
     paired(by_sign(-1), 3, 1, noble("image-tokens", "loss"))),
    ("transformer `narrowshallow` on TREC, layer-before", "about +20 points for narrow ones", "trec.md",
     paired(by_half_of_20_points, 1, 100, trec("0.01"), trec("0.05"))),
]


def row(claim, number, page, said):
    """The row but for its paper and its command."""
    told, verdicts = "; ".join(said[0]).replace("-", "−"), "; ".join(dict.fromkeys(said[1]))
    return f"| {claim} | {number} | {f'[{told}]({page})' if page else told} | {verdicts} |"


def main():
    with open(PAGE, encoding="utf-8") as f:
        text = new = f.read()
    for claim, *rest in CLAIMS:
        lines = [line for line in new.splitlines() if f"| {claim} |" in line]
        if len(lines) != 1:
            sys.exit(f"docs/papers/README.md: {len(lines)} rows claim \"{claim}\"")
        paper, command = lines[0].split(f"| {claim} |")[0], lines[0].rsplit("|", 2)[1]
        new = new.replace(lines[0], paper + row(claim, *rest) + command + "|")
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(new)
    elif new != text:
        wrong = next(b for a, b in zip(text.splitlines(), new.splitlines()) if a != b)
        sys.exit(f"docs/papers/README.md contradicts the runs, which say (make docs):\n{wrong}")


if __name__ == "__main__":
    main()
