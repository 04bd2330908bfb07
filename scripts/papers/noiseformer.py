#!/usr/bin/env python3
"""Noise in attention against symmetric attention alone, in many seeds (NoiseFormer, Figure 10; III-E).

make papers-noiseformer. SEEDS=16, STEPS=600.
"""
import ablation
import papers
import statistic

SYMMETRIC = {"attention": {"kind": "symmetric"}}
NETWORKS = {"symmetric": ablation.network(**SYMMETRIC),
            "v1": ablation.network(**SYMMETRIC, noise={"scope": "layer"}),
            "v2": ablation.network(**SYMMETRIC, noise={"scope": "head"}),
            "conditioned": ablation.network(**SYMMETRIC, noise={"scope": "head", "conditioned": True, "condition_dim": 16})}
COMPARED = [("Figure 10, V1", "v1", "symmetric", 0.038), ("Figure 10, V2", "v2", "symmetric", -0.008),
            ("Figure 10", "v2", "v1", -0.046), ("III-E, no figure", "conditioned", "symmetric", "below")]


def begin(plan):
    train = ablation.trainer("noiseformer", plan, NETWORKS)
    return list(NETWORKS), lambda name, seed: ablation.losses(train(name, seed))


def left_out(kept):
    """Whether the intervals have the paper's numbers in them."""
    words = []
    for where, a, b, claimed in COMPARED[:2]:
        d, half = statistic.difference(*kept.pairs("loss", a, b))
        words.append(f"the paper's {statistic.signed(claimed, 3)} of {a} is {'in' if abs(d - claimed) <= half else 'outside'} the "
                     "interval")
    return ", ".join(words)


def fields(kept):
    return {"left_out": left_out(kept), "table": ablation.compared(COMPARED, kept), "losses": ablation.told(kept)}


PAGE = """# What the noise does to the loss

`{command}` (NoiseFormer, Figure 10 and III-E).{ran} The paper trains 124M parameters on OpenWebText and shows a seed each;
ours have width 64, two layers, windows of 128, {STEPS} steps of 1,024 tokens of three books, the paper's KL weight of 5e-6.
`conditioned` draws from means and sigmas that a small network (width 16) makes of every token; the paper describes it and
has no figure. Differences are of validation losses in nats with the noise on, of pairs of the same seed
([noiseformer.csv](noiseformer.csv)); [the family](../family/README.md) has three seeds at five times the size. Here {left_out}.

{table}
{losses}
![Validation loss by step](noiseformer.svg)
"""

experiment = papers.Experiment(
    "noiseformer", keys=["network"], plan={"SEEDS": 16, "STEPS": 600}, begin=begin, page=PAGE, fields=fields,
    pictures=lambda kept: {"noiseformer.svg": ablation.picture(kept, NETWORKS)})

if __name__ == "__main__":
    experiment.main()
