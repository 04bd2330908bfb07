#!/usr/bin/env python3
"""README's table of speeds, made of the targets at the end of every page of docs/figures/; with --check a difference is an
error (make lint)."""
import glob
import os
import re
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
README = os.path.join(TOP, "README.md")
PART = re.compile(r"(<!-- figures -->\n).*?(\n<!-- end of figures -->)", re.DOTALL)
NAMES = {("25", "17"): "Zen 4", ("26", "2"): "Zen 5", ("6", "85"): "Cascade Lake", ("6", "207"): "Emerald Rapids"}
COLUMNS = {
    "prefill": ("prefill of 512",),
    "one stream, int8 / int4": ("one stream, int8", "one stream, int4"),
    "32 streams, int8": ("32 streams, int8",),
    "32 HTTP clients": ("32 HTTP clients, prompts of 64",),
    "training, f32 / bf16": ("training, f32", "training, bf16"),
}


def row(path):
    with open(path, encoding="utf-8") as f:
        page = f.read()
    cpu, family, model, level = re.match(r"# (.*) \(family (\S+), model (\S+)\), level `(.*)`", page).groups()
    name = NAMES.get((family, model), f"family {family}, model {model}")
    ratios = dict(re.findall(r"^\| (.*), by the best rival's \| ([0-9.]+) \|", page, re.MULTILINE))
    cells = [" / ".join(ratios.get(what, "–") for what in column) for column in COLUMNS.values()]
    return f"| [{cpu.split(' @')[0]}, {name}, `{level}`]({os.path.relpath(path, TOP)}) | " + " | ".join(cells) + " |"


def main():
    with open(README, encoding="utf-8") as f:
        page = f.read()
    pages = sorted(glob.glob(os.path.join(TOP, "docs", "figures", "*.md")))
    table = ["| | " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * len(COLUMNS), *map(row, pages)]
    new = PART.sub(lambda m: m[1] + "\n".join(table) + m[2], page)
    if "--check" not in sys.argv:
        with open(README, "w", encoding="utf-8") as f:
            f.write(new)
    elif new != page:
        sys.exit("README.md is not what tests/bench/figures_table.py makes of docs/figures/ (make docs)")


if __name__ == "__main__":
    main()
