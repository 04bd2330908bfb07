"""differences.svg: how far every member is from mha of the same seed all through its run, a panel each. A line is the
mean over the seeds, its band goes from the lowest to the highest. Colours are Okabe and Ito's, which colour-blind
readers tell apart; the lines differ in their dashes too."""
import math
import os
import sys

import plan

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "papers"))
from pictures import escape, svg, ticks  # noqa: E402

STYLES = {"own": ("#0072b2", ""), "parameters": ("#d55e00", "6 3"), "time": ("#009e73", "2 3")}
COLUMNS, WIDTH, HEIGHT, LEFT, TOP, GAP = 4, 190, 130, 70, 60, 40


def lines_of(results, member):
    """{protocol: [difference from mha at every evaluation, of every seed]}; the same runs are drawn once."""
    out = {}
    for p in plan.PROTOCOLS:
        seeds = results.seeds(p, member)
        same = p != "own" and all(results.runs[p, member, s] == results.runs["own", member, s] for s in seeds)
        if seeds and not same:
            out[p] = [[a - b for (_, a), (_, b) in zip(results.curves[p, member, s], results.curves["own", "mha", s])]
                      for s in seeds]
    return out


def panel(x0, y0, member, lines, low, high):
    def at(k, d):
        return f"{x0 + WIDTH * (k + 1) / plan.EVALUATIONS:.1f},{y0 + HEIGHT * (high - d) / (high - low):.1f}"

    out = [f'<text x="{x0}" y="{y0 - 8}" font-size="14">{escape(member)}</text>']
    for d in ticks(low, high, 3):
        _, y = at(0, d).split(",")
        out.append(f'<path d="M{x0} {y} h{WIDTH}" stroke="{"#000000" if abs(d) < 1e-9 else "#dddddd"}"/>'
                   f'<text x="{x0 - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{d:.1f}</text>')
    for p, seeds in lines.items():
        colour, dash = STYLES[p]
        columns = list(zip(*seeds))
        upper = [at(k, max(c)) for k, c in enumerate(columns)]
        lower = [at(k, min(c)) for k, c in enumerate(columns)]
        middle = [at(k, math.fsum(c) / len(c)) for k, c in enumerate(columns)]
        out.append(f'<polygon points="{" ".join(upper + lower[::-1])}" fill="{colour}" opacity="0.2"/>'
                   f'<polyline points="{" ".join(middle)}" fill="none" stroke="{colour}" stroke-width="2" '
                   f'stroke-dasharray="{dash}"/>')
    return out


def differences(results):
    members = [m.name for m in plan.MEMBERS if m.name != "mha"]
    lines = {member: lines_of(results, member) for member in members}
    values = [d for of in lines.values() for seeds in of.values() for run in seeds for d in run]
    low, high = (math.floor(10 * min(values, default=0)) / 10, math.ceil(10 * max(values, default=0.1)) / 10)
    rows = -(-len(members) // COLUMNS)
    out = ['<title>Validation loss of the members minus mha\'s over the run</title>',
           f'<text x="{LEFT}" y="20" font-size="15">validation loss minus mha\'s of the same seed, nats, from the '
           'beginning of the run (left) to its end</text>']
    for i, (p, title) in enumerate(plan.PROTOCOLS.items()):
        colour, dash = STYLES[p]
        x = LEFT + 170 * i
        out.append(f'<path d="M{x} 35 h30" stroke="{colour}" stroke-width="3" stroke-dasharray="{dash}"/>'
                   f'<text x="{x + 38}" y="39">{title}</text>')
    for i, member in enumerate(members):
        x, y = LEFT + (WIDTH + GAP + 20) * (i % COLUMNS), TOP + 20 + (HEIGHT + GAP) * (i // COLUMNS)
        out += panel(x, y, member, lines[member], low, high)
    return svg(LEFT + (WIDTH + GAP + 20) * max(min(COLUMNS, len(members)), 3), TOP + 10 + (HEIGHT + GAP) * rows, "\n".join(out) + "\n")
