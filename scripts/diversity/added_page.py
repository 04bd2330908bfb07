"""added_page.py [--check]: the tables of docs/noise.md between `<!-- added: CSV -->` and `<!-- end of added -->`, made of
what added.py measured; --check (make lint): they are."""
import csv
import os
import re
import sys

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
PAGE = os.path.join(DOCS, "noise.md")
PART = re.compile(r"(<!-- added: (\S+) -->\n).*?(<!-- end of added -->)", re.DOTALL)
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


def made(part):
    with open(os.path.join(DOCS, part[2]), encoding="utf-8", newline="") as f:
        return "\n".join([part[1], *table(csv.DictReader(f)), "", part[3]])


def main():
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    new = PART.sub(made, page)
    if "--check" not in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(new)
    elif new != page:
        sys.exit("docs/noise.md is not what scripts/diversity/added_page.py makes of docs/diversity/added-*.csv (make docs)")


if __name__ == "__main__":
    main()
