"""added_page.py [--check]: the table of docs/noise.md between `<!-- added -->` and `<!-- end of added -->`, made of
docs/diversity/added.csv (added.py); --check (make lint): it is."""
import csv
import os
import re
import sys

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
PAGE = os.path.join(DOCS, "noise.md")
PART = re.compile(r"(<!-- added -->\n).*?(<!-- end of added -->)", re.DOTALL)
WORDS = {"none": "no noise", "fitted": "as fitted", "equal": "equal in all heads"}


def told(row, what, digits, sign=""):
    if not row[what]:
        return ""
    say = lambda end: f"{float(row[what + end]):{sign}.{digits}f}".replace("-", "−")
    return f"{say('')} ({say('_low')} to {say('_high')})"


def table(rows):
    yield "| sigma | temperature | `noise_scale` | different texts, % | self-BLEU | judge, nats a token | gain on temperature |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for r in rows:
        scale = "" if r["sigma"] == "none" else r["noise_scale"]
        yield (f"| {WORDS[r['sigma']]} | {r['temperature']} | {scale} | {100 * float(r['distinct']):.0f} | "
               f"{float(r['self_bleu']):.3f} | {told(r, 'judge', 2)} | {told(r, 'gain', 2, '+')} |")


def main():
    with open(os.path.join(DOCS, "diversity", "added.csv"), encoding="utf-8", newline="") as f:
        part = "\n".join(table(csv.DictReader(f)))
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    made = PART.sub(lambda m: f"{m[1]}\n{part}\n\n{m[2]}", page)
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(made)
    elif made != page or part not in page:
        sys.exit("docs/noise.md is not what scripts/diversity/added_page.py makes of docs/diversity/added.csv (make docs)")


if __name__ == "__main__":
    main()
