"""claims.py [--check]: the rows of docs/papers/README.md that the runs of docs/family decide, from runs.csv.

A row is known by its claim; --check (make lint) fails where it says anything else than the runs do.
"""
import csv
import os
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(TOP, "scripts", "papers"))
from papers import difference, verdict  # noqa: E402

# claim, its number, the sign it has, member, what it is compared with, under which protocols
CLAIMS = [
    ("validation loss: symmetric above plain attention", "about +0.07", 1, "symmetric", "mha", ("own",)),
    ("V1 above symmetric", "+0.038", 1, "noiseformer-v1", "symmetric", ("own",)),
    ("V2 below symmetric", "−0.008", -1, "noiseformer-v2", "symmetric", ("own",)),
    ("loss below plain attention", "−0.049", -1, "sas-k5", "mha", ("own", "parameters")),
    ("causal loss below its host's", "−0.040, 5.7% more parameters", -1, "noble", "mha", ("own", "parameters")),
]
WORDS = {"own": "", "parameters": " at equal parameters"}


def losses():
    """{(protocol, member): [loss of every seed]}"""
    found = {}
    with open(os.path.join(TOP, "docs", "family", "runs.csv"), encoding="utf-8", newline="") as f:
        for run in csv.DictReader(f):
            found.setdefault((run["protocol"], run["member"]), {})[run["seed"]] = float(run["val_loss"])
    return {key: [runs[seed] for seed in sorted(runs)] for key, runs in found.items()}


def row(found, claim, number, sign, member, other, protocols):
    """The row but for its paper and its command."""
    told, verdicts = [], []
    for protocol in protocols:
        a, b = found[protocol, member], found[protocol, other]
        d, half = difference(a, b)
        told.append(f"{d:+.3f} ± {half:.3f}{WORDS[protocol]}".replace("-", "−"))
        verdicts.append(verdict(sign, a, b).removesuffix(" at this size"))
    return f"| {claim} | {number} | {'; '.join(told)} | {'; '.join(dict.fromkeys(verdicts))} |"


def main():
    path = os.path.join(TOP, "docs", "papers", "README.md")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    found, new = losses(), text
    for claim, *rest in CLAIMS:
        lines = [line for line in new.splitlines() if f"| {claim} |" in line]
        if len(lines) != 1:
            sys.exit(f"docs/papers/README.md: {len(lines)} rows claim \"{claim}\"")
        paper, command = lines[0].split(f"| {claim} |")[0], lines[0].rsplit("|", 2)[1]
        new = new.replace(lines[0], paper + row(found, claim, *rest) + command + "|")
    if "--check" not in sys.argv:
        with open(path, "w", encoding="utf-8") as f:
            f.write(new)
    elif new != text:
        wrong = next(b for a, b in zip(text.splitlines(), new.splitlines()) if a != b)
        sys.exit(f"docs/papers/README.md contradicts docs/family/runs.csv, which says (make docs):\n{wrong}")


if __name__ == "__main__":
    main()
