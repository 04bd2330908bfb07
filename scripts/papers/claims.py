"""claims.py [--check]: the rows of docs/papers/README.md that kept runs decide, counted from them.

A row is known by its claim; --check (make lint) fails where it says anything else than the runs do.
"""
import csv
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


def family(member, other, protocol="own", words=""):
    return FAMILY, {"protocol": protocol, "member": member}, {"protocol": protocol, "member": other}, words


def trec(sigma):
    size = {"size": "narrowshallow"}
    return (("papers/trec.csv", "accuracy"), {**size, "mode": "layer-before", "sigma": sigma}, {**size, "mode": "none"},
            f" at sigma {sigma}")


# claim, its number, how it is judged, digits, the unit's size, page, comparisons: what a seed of the first came to minus
# what the same seed of the second did
CLAIMS = [
    ("validation loss: symmetric above plain attention", "about +0.07", by_sign(1), 3, 1, "",
     [family("symmetric", "mha")]),
    ("V1 above symmetric", "+0.038", by_sign(1), 3, 1, "", [family("noiseformer-v1", "symmetric")]),
    ("V2 below symmetric", "−0.008", by_sign(-1), 3, 1, "", [family("noiseformer-v2", "symmetric")]),
    ("loss below plain attention", "−0.049", by_sign(-1), 3, 1, "",
     [family("sas-k5", "mha"), family("sas-k5", "mha", "parameters", " at equal parameters")]),
    ("causal loss below its host's", "−0.040, 5.7% more parameters", by_sign(-1), 3, 1, "",
     [family("noble", "mha"), family("noble", "mha", "parameters", " at equal parameters")]),
    ("masked language model (Table 2)", "−0.021 to −0.063", by_sign(-1), 3, 1, "mlm.md",
     [(("papers/mlm.csv", "loss"), {"network": "NOBLE"}, {"network": "plain"}, "")]),
    ("image tokens (Table 4)", "−0.024 to −0.041", by_sign(-1), 3, 1, "image-tokens.md",
     [(("papers/image-tokens.csv", "loss"), {"network": "NOBLE"}, {"network": "plain"}, "")]),
    ("transformer `narrowshallow` on TREC, layer-before", "about +20 points for narrow ones", by_half_of_20_points, 1,
     100, "trec.md", [trec("0.01"), trec("0.05")]),
]


def values(source, where):
    """What every seed came to, in their order."""
    path, measure = source
    with open(os.path.join(papers.TOP, "docs", path), encoding="utf-8", newline="") as f:
        runs = {int(r["seed"]): float(r[measure]) for r in csv.DictReader(f) if where.items() <= r.items()}
    if not runs:
        sys.exit(f"docs/{path} has no run with {where}")
    return [runs[seed] for seed in sorted(runs)]


def row(claim, number, judge, digits, unit, page, comparisons):
    """The row but for its paper and its command."""
    told, verdicts = [], []
    for source, first, second, words in comparisons:
        a, b = values(source, first), values(source, second)
        d, half = papers.difference(a, b)
        told.append(f"{unit * d:+.{digits}f} ± {unit * half:.{digits}f}{words}".replace("-", "−"))
        verdicts.append(judge(a, b))
    ours = f"[{'; '.join(told)}]({page})" if page else "; ".join(told)
    return f"| {claim} | {number} | {ours} | {'; '.join(dict.fromkeys(verdicts))} |"


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
