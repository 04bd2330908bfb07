#!/usr/bin/env python3
"""NOBLE's branches: ranks with their steps and time, activations of one to three layers (NOBLE, Tables 1 and 5).

make papers-noble. SEEDS=3, STEPS=1500, FIGURES="start ranks activations".
"""
import os
import re
import statistics
import subprocess

import ablation
import branches
import papers
import statistic

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


NETWORKS = {**{host: ablation.network(**HOST, **more) for host, more in branches.HOSTS.items()},
            **{f"rank-{r}": ablation.network(**HOST, noble={"rank": r}) for r in RANKS},
            **{branch(a, n): ablation.network(**HOST, noble={"rank": 4, "activation": a, "layers": n})
               for a, n in ACTIVATIONS if (a, n) != ("cosnet", 2)}}
GROUPS = {"start": [(f"Table 1, rank {RANKS[4][0]}", "rank-4", "kaiming", RANKS[4][1]),
                    ("not told", "rank-4", "start", "below"), ("not told", "rank-4", "plain", "below"),
                    ("not told", "start", "kaiming", "")],
          "ranks": [(f"Table 1, rank {told[0]}", f"rank-{r}", "kaiming", told[1]) for r, told in RANKS.items()],
          "activations": [(f"Table 5, {a} × {n}", branch(a, n), "kaiming", claimed)
                          for (a, n), claimed in ACTIVATIONS.items()]}


def parameters(folder):
    said = subprocess.run([os.path.join(papers.BUILD, "noised-weights"), "inspect", folder], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    return int(re.search(r"^parameters: (\d+)", said, re.M)[1])


def token_time(folder):
    return 1 / statistics.median(line["tokens_per_second"] for line in papers.log(folder))


def begin(plan):
    train = ablation.trainer("noble", plan, NETWORKS)

    def measure(name, seed):
        folder = train(name, seed)
        return {**ablation.losses(folder), "parameters": parameters(folder), "token_us": 1e6 * token_time(folder)}

    return ablation.networks_of(ablation.chosen(GROUPS, plan)), measure


def cost(kept):
    """A row for every rank: what its branches cost and save."""
    rows = []
    for r, (rank, _, more, longer, steps, time) in RANKS.items():
        name = f"rank-{r}"
        if name not in kept.names():
            continue
        weights, host = kept.pairs("parameters", name, "kaiming")
        times = [a / b for a, b in zip(*kept.pairs("token_us", name, "kaiming"))]
        fewer = [statistic.times_fewer(a, b) for a, b in zip(kept.curves(name), kept.curves("kaiming"))]
        rows.append([f"{r} ({rank})", f"{more:+.1f}% / {100 * (weights[0] / host[0] - 1):+.1f}%",
                     f"{longer:+.1f}% / {100 * statistic.mean(times) - 100:+.1f}%", f"{steps} / {told(fewer)}",
                     f"{time} / {told([f / t for f, t in zip(fewer, times)])}"])
    return papers.table(["rank (the paper's)", "parameters", "time of a step",
                         "times fewer steps to kaiming's last loss", "times less time"], rows)


def told(values):
    return ", ".join("never" if v != v else f"{v:.2f}" for v in values)


def fields(kept):
    return {"hosts": branches.WORDS, "table": ablation.compared(ablation.chosen(GROUPS, kept.plan), kept),
            "cost": cost(kept), "losses": ablation.told(kept)}


PAGE = """# NOBLE's ranks and activations

`{command}` (NOBLE, Tables 1 and 5).{ran} The paper trains width 1,024 and 2,048 on OpenWebText for up to 250,000
steps; ours is width 64, two layers, windows of 128, gated GELU, {STEPS} steps of 1,024 tokens of three books, ranks the
same shares of the width. {hosts} Differences are of validation losses in nats, over seeds that pair
([noble.csv](noble.csv), with microseconds a token).

{table}
What a rank costs and saves, the paper's / ours; times are medians over the steps, worth something where nothing else
ran beside them.

{cost}
{losses}
![Validation loss by step](noble.svg)
"""

experiment = papers.Experiment(
    "noble", keys=["network"], plan={"SEEDS": 3, "STEPS": 1500, "FIGURES": " ".join(GROUPS)}, begin=begin, page=PAGE,
    fields=fields, pictures=lambda kept: {"noble.svg": ablation.picture(kept, kept.names()[:8])})

if __name__ == "__main__":
    experiment.main()
