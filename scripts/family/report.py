"""What the finished runs say: table.md, differences.svg and the numbers behind both, runs.csv and curves.csv.
report.py DOCS fails where table.md there has other differences than curves.csv.

Every comparison is with mha's run of the same seed; an interval is Student's 95% over the seeds.
"""
import csv
import os
import platform
import statistics
import sys

import plan
import picture
from train import write_text

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "papers"))
from papers import table  # noqa: E402
from statistic import difference  # noqa: E402

# A run is off the plateau when it is this much better than blind at the same share of its steps; it is stuck when it is
# on it for more than half of them.
MARGIN = 0.05


class Results:
    """The finished runs of a trainer: curves of (step, loss), by protocol, member and seed."""

    def __init__(self, trainer):
        self.trainer, self.sizes = trainer, trainer.sizes
        self.curves, self.runs = {}, {}
        for p in plan.PROTOCOLS:
            for m in plan.MEMBERS:
                for seed in plan.SEEDS:
                    run = trainer.run(p, m, seed)
                    curve = run and trainer.curve(run)
                    if curve:
                        self.curves[p, m.name, seed], self.runs[p, m.name, seed] = curve, run

    def seeds(self, protocol, member):
        """Those that both the member and mha have finished."""
        return [s for s in plan.SEEDS if (protocol, member, s) in self.curves and ("own", "mha", s) in self.curves]

    def finals(self, protocol, member):
        return [self.curves[protocol, member, s][-1][1] for s in self.seeds(protocol, member)]

    def against(self, protocol, member):
        """Mean difference from mha and half of its interval, or None."""
        seeds = self.seeds(protocol, member)
        return seeds and difference(self.finals(protocol, member), [self.curves["own", "mha", s][-1][1] for s in seeds])

    def ms(self, member):
        """Of processor time a step, from mha's and the ratio to it."""
        return self.sizes[member]["ratio"] * statistics.median(t for s in self.sizes.values() for t in s["mha_ms"])

    def leave_plateau(self, member):
        """For every seed the share of its steps from which on a run is better than blind's mean by MARGIN, or None."""
        blind = [self.curves["own", "blind", s] for s in plan.SEEDS if ("own", "blind", s) in self.curves]
        level = [statistics.mean(loss for _, loss in at) for at in zip(*blind)]
        curves = [self.curves["own", member, s] for s in self.seeds("own", member)] if blind else []
        return [crossing([(0, 0)] + [(step / own[-1][0], b - a) for (step, a), b in zip(own, level)], MARGIN)
                for own in curves]

    def reaches(self, member, seed):
        """The step from which on a run has the loss of mha with the same seed at its last evaluation but the one at the
        end, which is on more text; None: never."""
        target = self.curves["own", "mha", seed][-2][1]
        return crossing([(step, target - loss) for step, loss in self.curves["own", member, seed][:-1]], 0)


class Kept(Results):
    """The same out of curves.csv, without the sizes and times of the runs."""

    def __init__(self, docs):
        self.curves = {}
        with open(os.path.join(docs, "curves.csv"), encoding="utf-8", newline="") as f:
            for r in csv.DictReader(f):
                self.curves.setdefault((r["protocol"], r["member"], int(r["seed"])), []).append((int(r["step"]), float(r["val_loss"])))


def crossing(points, level):
    """Where the line through the points comes up to the level and stays there; None: it ends below."""
    if points[-1][1] < level:
        return None
    for (x0, y0), (x1, y1) in zip(points[-2::-1], points[:0:-1]):
        if y0 < level:
            return x0 + (x1 - x0) * (level - y0) / (y1 - y0)
    return points[0][0]


def signed(x):
    return f"{x:+.3f}".replace("-", "−")


def compared(results, protocol, member):
    """A cell: the difference from mha and its interval, bold where that is clear of 0."""
    seeds = results.seeds(protocol, member)
    if member == "mha" or not seeds:
        return "" if member == "mha" else "–"
    d, half = results.against(protocol, member)
    few = "" if len(seeds) == len(plan.SEEDS) else f" ({len(seeds)} of {len(plan.SEEDS)} seeds)"
    if len(seeds) == 1:
        return signed(d) + few
    text = f"{signed(d)} ± {half:.3f}"
    return (f"**{text}**" if abs(d) > half else text) + few


def told(values, unit="{:.0f}"):
    """The mean where all seeds have a value, else how many have one."""
    if not values:
        return "–"
    have = [v for v in values if v is not None]
    if len(have) < len(values):
        return f"{len(have)} of {len(values)} seeds" if have else "never"
    return unit.format(statistics.mean(have))


def main_table(results):
    def row(m):
        shares = results.leave_plateau(m.name)
        stuck = sum(share is None or share > 0.5 for share in shares)
        mark = f"stuck: {stuck} of {len(shares)}" if stuck and m.name != "blind" else ""
        return [m.name, m.claim, *(compared(results, p, m.name) for p in plan.PROTOCOLS), mark]

    return table(["member", "its paper says, against its baseline", *plan.PROTOCOLS.values(), "plateau"],
                 map(row, plan.MEMBERS))


def cost_table(results):
    def row(m):
        size, seeds = results.sizes[m.name], results.seeds("own", m.name)
        finals = results.finals("own", m.name)
        spread = f" ± {statistics.stdev(finals):.3f}" if len(finals) > 1 else ""
        timed = plan.protocol_run("time", m, "", 1, size)
        reached = [results.reaches(m.name, s) for s in seeds]
        seconds = [None if r is None else r * results.ms(m.name) / 1000 for r in reached]
        return [m.name, results.trainer.rate(m) or "–", f"{statistics.mean(finals):.3f}{spread}" if finals else "–",
                size["parameters"], size["fitted"], f"{size['ratio']:.2f}", timed.steps if timed else "",
                told(reached), told(seconds), "" if m.name == "blind" else told(results.leave_plateau(m.name), "{:.2f}")]

    return table(["member", "learning rate", "validation loss", "parameters", "MLP at equal parameters", "step, × mha",
                  "steps at equal time", "to mha's loss: steps", "CPU seconds", "leaves the plateau"],
                 map(row, plan.MEMBERS))


def page(results):
    shape, at, command = plan.SHAPE, plan.EVALUATIONS - 1, f"{plan.changed()} make family".strip()
    return f"""# The family beside mha

Written by

    {command}

Differences are from mha's run of the same seed, in nats a token on the whole held-out 5%, noise on: the mean over
{len(plan.SEEDS)} seeds and Student's 95% interval, bold where it is clear of 0. A seed sets initial weights, order of the data and
noise. Differences of the papers' perplexities are differences of their logarithms. [README.md](README.md) reads it.

{main_table(results)}
![differences from mha over the run](differences.svg)

{cost_table(results)}
- All: vocabulary {shape["vocab_size"]}, width {plan.HIDDEN}, {shape["num_hidden_layers"]} layers, {plan.HEADS} heads of {plan.HEAD_DIM}, context
  {shape["max_position_embeddings"]}, an MLP of width {plan.WIDTH}, rmsnorm, rope, gated silu.
- Trained by AdamW on the King James Bible, Moby-Dick and Sherlock Holmes: {plan.STEPS} steps of {plan.BATCH} windows, a quarter of
  them warm-up, then a cosine down to a tenth.
- Learning rate: the best of {", ".join(plan.RATES)} for the member, by its loss after a run of {plan.SWEEP} steps with seed 1.
- The paper's own: what a member adds or takes away is not made up for. Equal parameters: the width of the MLP makes up
  for it; within 1% of mha's is equal. Equal time: as many steps as fit in the processor time of mha's run; a step
  within 5% of mha's is equal. Where a member is equal, it is the same run.
- Step: processor time of one thread of {machine()}; the median, over {len(plan.ROUNDS)} rounds, of ratios
  to mha's step measured beside it, which takes {results.ms("mha"):.1f} ms.
- To mha's loss: the step from which on a run has the loss that mha of the same seed has at {at} tenths of its run, on 64
  held-out windows. For mha that is step {plan.STEPS * at // plan.EVALUATIONS}.
- Plateau: `blind` is mha with `"sliding_window": 1`, a network that cannot look back. The last column is the
  share of its steps from which on a run is better than the mean of blind's runs by {MARGIN}. A run is stuck if that is
  more than half, or never.
- In curves.csv the last evaluation of a run is on all held-out tokens, those before on 64 windows of them.
"""


def machine():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def write(trainer, docs):
    results = Results(trainer)
    os.makedirs(docs, exist_ok=True)
    runs, curves = "protocol,member,seed,config,rate,steps,val_loss\n", "protocol,member,seed,step,val_loss\n"
    for (p, m, seed), curve in results.curves.items():
        run = results.runs[p, m, seed]
        runs += f"{p},{m},{seed},{run.config},{run.rate},{run.steps},{curve[-1][1]:.5f}\n"
        curves += "".join(f"{p},{m},{seed},{step},{loss:.5f}\n" for step, loss in curve)
    for name, text in (("runs.csv", runs), ("curves.csv", curves), ("table.md", page(results)),
                       ("differences.svg", picture.differences(results))):
        write_text(os.path.join(docs, name), text)


def check(docs):
    with open(os.path.join(docs, "table.md"), encoding="utf-8") as f:
        told = f.read()
    table = main_table(Kept(docs))
    if table not in told:
        wrong = next(line for line in table.splitlines() if line not in told)
        sys.exit(f"{docs}/table.md contradicts its runs, which say:\n{wrong}")


if __name__ == "__main__":
    check(sys.argv[1])
