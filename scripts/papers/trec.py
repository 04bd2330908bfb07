#!/usr/bin/env python3
"""TREC's questions with noise on the weights of encoder-decoder transformers (noise injection, Table 1, Figure 1).

make papers-trec DATA=FOLDER, with FOLDER/trec holding TREC.train.txt and TREC.test.txt, and FOLDER/vectors. SEEDS=5,
EPOCHS=30, SIZES, MODES, SIGMAS, OPTIMIZER, LR, VECTORS.
"""
import os

import papers
import statistic
import weight_noise

SIZES = ["base", "narrow", "deep", "wideshallow", "narrowdeep", "narrowshallow"]


def begin(plan):
    folder = papers.data("trec", "TREC.train.txt", "TREC.test.txt", page="https://cogcomp.seas.upenn.edu/Data/QA/QC/")
    train = weight_noise.trainer("trec", plan, "--format", "trec", "--train", os.path.join(folder, "TREC.train.txt"),
                                 "--test", os.path.join(folder, "TREC.test.txt"))
    return weight_noise.networks(plan), lambda key, seed: weight_noise.tested(train(key, seed))


def fields(kept):
    rows = []
    for key in kept.names():
        size, mode, sigma = key
        noisy, claimed = mode != "none", size.startswith("narrow") and mode == "layer-before"
        pair = kept.pairs("accuracy", key, weight_noise.quiet(key))
        values, diverged = kept.values("accuracy", key), kept.diverged(key)
        rows.append([size, mode, sigma if noisy else "", f"{len(values)}, {diverged} diverged" if diverged else len(values),
                     statistic.told(values, 1, 100) if values else "",
                     statistic.compared(*pair, 1, 100) if noisy and values else "", "about +20" if claimed else "",
                     statistic.verdict(1, *pair, least=0.1) if claimed else ""])
    return {"descent": weight_noise.descent(kept.plan), "missing": weight_noise.missing(kept), "majority": f"{100 * weight_noise.majority(kept):.1f}",
            "table": papers.table(["size", "weight noise", "sigma", "seeds", "accuracy, %", "against none, points, 95%",
                                   "paper", "verdict"], rows)}


PAGE = """# Questions, with noise on the weights

`{command}`, with DATA=FOLDER.{ran}{missing}

TREC's six classes by the encoder-decoder transformers of the paper's Table 1 on frozen word vectors of 25 (GloVe's of 6B
tokens, projected; the paper takes Twitter's), without noise and with its modes. The paper tells neither optimiser nor
rates: here {descent}, gradients clipped at a norm of 1, batches of 32, dropout 0.1, {EPOCHS} epochs. Accuracy on the test
set after the last, mean ± deviation over the seeds ([trec.csv](trec.csv)); always the most frequent class of the training
set: {majority}%. A training with gradients beyond what is summed, 2,048, diverges and has no accuracy. The
paper's one figure is that narrow networks gain about 20 points by layer-before: half of that counts
as agreement.

{table}
![Accuracy by size and mode](trec.svg)
"""

experiment = papers.Experiment(
    "trec", keys=["size", "mode", "sigma"], plan=weight_noise.plan(SIZES, "sgd", "0.1"), begin=begin, page=PAGE,
    fields=fields, pictures=lambda kept: weight_noise.picture(kept, "trec"))

if __name__ == "__main__":
    experiment.main()
