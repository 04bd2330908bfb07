#!/usr/bin/env python3
"""NOBLE's branches: ranks with their steps and time, activations of one to three layers (003, Tables 1 and 5).

make papers-noble. SEEDS=3, STEPS=1500, FIGURES="ranks activations".
"""
import os
import re
import statistics
import subprocess

import ablation
import papers

HOST = {"mlp": {"activation": "gelu", "gated": True, "intermediate_size": 172}, "tie_word_embeddings": False}
# Of rank 4 in width 64, as 64 in 1,024: activation and layers, and the paper's differences.
ACTIVATIONS = {("tanh", 1): -0.003, ("tanh", 2): -0.014, ("leaky_relu", 1): -0.022, ("leaky_relu", 2): -0.029,
               ("gelu", 1): -0.023, ("gelu", 2): -0.027, ("cosnet", 1): -0.028, ("cosnet", 2): -0.045,
               ("cosnet", 3): -0.044}
# Rank: of width 1,024, the difference, parameters and time added in per cent, times fewer steps, times less time.
RANKS = {4: (64, -0.040, 5.7, 7.6, 1.26, 1.17), 8: (128, -0.052, 11.6, 11.5, 1.35, 1.21),
         16: (256, -0.070, 24.1, 20.8, 1.47, 1.22)}


def branch(activation, layers):
    return "rank-4" if (activation, layers) == ("cosnet", 2) else f"{activation}-{layers}"


# `start` has NOBLE's initial weights and no branches: what of a gain is the start's.
NETWORKS = {"host": ablation.network(**HOST), "start": ablation.network(**HOST, noble={"rank": 0}),
            **{f"rank-{r}": ablation.network(**HOST, noble={"rank": r}) for r in RANKS},
            **{branch(a, n): ablation.network(**HOST, noble={"rank": 4, "activation": a, "layers": n})
               for a, n in ACTIVATIONS if (a, n) != ("cosnet", 2)}}
GROUPS = {"ranks": [("not told", "start", "host", ""),
                    *((f"Table 1, rank {told[0]}", f"rank-{r}", other, told[1])
                      for r, told in RANKS.items() for other in ("host", "start"))],
          "activations": [(f"Table 5, {a} × {n}", branch(a, n), "host", claimed)
                          for (a, n), claimed in ACTIVATIONS.items()]}


def parameters(folder):
    said = subprocess.run([os.path.join(papers.BUILD, "noised-weights"), "inspect", folder], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    return int(re.search(r"^parameters: (\d+)", said, re.M)[1])


def token_time(folder):
    return 1 / statistics.median(line["tokens_per_second"] for line in papers.log(folder))


def cost(folders, curves):
    """A row for every rank: what its branches cost and save."""
    rows = []
    for r, (rank, _, more, longer, steps, time) in RANKS.items():
        name = f"rank-{r}"
        if name not in folders:
            continue
        grown = 100 * (parameters(folders[name][0]) / parameters(folders["host"][0]) - 1)
        times = [token_time(a) / token_time(b) for a, b in zip(folders[name], folders["host"])]
        fewer = [papers.times_fewer(a, b) for a, b in zip(curves[name], curves["host"])]
        rows.append([f"{r} ({rank})", f"{more:+.1f}% / {grown:+.1f}%",
                     f"{longer:+.1f}% / {100 * papers.mean(times) - 100:+.1f}%", f"{steps} / {seeds(fewer)}",
                     f"{time} / {seeds([f / t for f, t in zip(fewer, times)])}"])
    return papers.table(["rank (the paper's)", "parameters", "time of a step",
                         "times fewer steps to the host's last loss", "times less time"], rows)


def seeds(values):
    return ", ".join("never" if v != v else f"{v:.2f}" for v in values)


def main():
    comparisons = ablation.chosen(GROUPS)
    wanted = {name for _, a, b, _ in comparisons for name in (a, b)}
    folders = ablation.train("noble", {name: c for name, c in NETWORKS.items() if name in wanted})
    curves = ablation.curves(folders)
    losses = {name: [run[-1] for run in runs] for name, runs in curves.items()}
    papers.keep("noble", ["network"], loss=losses,
                token_us={name: [1e6 * token_time(path) for path in paths] for name, paths in folders.items()})
    papers.write("noble.svg", ablation.picture({name: curves[name] for name in list(curves)[:8]}))
    papers.write("noble.md", PAGE.format(
        plan=papers.plan("FIGURES", "STEPS", "SEEDS", "CORPUS"), steps=ablation.STEPS, seeds=papers.SEEDS,
        table=ablation.compared(comparisons, losses), cost=cost(folders, curves),
        losses=ablation.told(losses)))


PAGE = """# NOBLE's ranks and activations

`make papers-noble{plan}` (003, Tables 1 and 5). The paper trains width 1,024 and 2,048 on OpenWebText for up to 250,000
steps; ours is width 64, two layers, windows of 128, gated GELU, {steps} steps of 1,024 tokens of three books, ranks the
same shares of the width. `start` is the host with the initial weights that NOBLE's linears have, without branches:
the paper's host starts larger than these, ours smaller. Differences are of validation losses in nats, over {seeds} seeds that pair
([noble.csv](noble.csv), with microseconds a token).

{table}
What a rank costs and saves, the paper's / ours; times are medians over the steps, worth something where nothing else
ran beside them.

{cost}
{losses}
![Validation loss by step](noble.svg)
"""

if __name__ == "__main__":
    main()
