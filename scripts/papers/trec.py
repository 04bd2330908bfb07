#!/usr/bin/env python3
"""TREC's questions with noise on the weights of encoder-decoder transformers (noise injection, Table 1, Figure 1).

make papers-trec DATA=FOLDER, with FOLDER/trec holding TREC.train.txt and TREC.test.txt, and FOLDER/vectors. SEEDS=3,
EPOCHS=30, SIZES, MODES, SIGMAS, OPTIMIZER, LR, VECTORS.
"""
import os

import papers
import weight_noise

RATE = "sgd", 0.1
SIZES = ["base", "narrow", "deep", "wideshallow", "narrowdeep", "narrowshallow"]


def main():
    folder = papers.data("trec", "TREC.train.txt", "TREC.test.txt", page="https://cogcomp.seas.upenn.edu/Data/QA/QC/")
    runs = weight_noise.train("trec", SIZES, RATE, "--format", "trec", "--train",
                              os.path.join(folder, "TREC.train.txt"), "--test", os.path.join(folder, "TREC.test.txt"))
    rows = []
    for (size, mode, sigma), found in runs.items():
        ours, base = weight_noise.accuracy(found), weight_noise.accuracy(runs[size, "none", "0"])
        noisy, claimed = mode != "none", size.startswith("narrow") and mode == "layer-before"
        rows.append([size, mode, sigma if noisy else "", papers.told(ours, 1, 100),
                     weight_noise.against(ours, base) if noisy else "", "about +20" if claimed else "",
                     weight_noise.above(0.1, ours, base) if claimed else ""])
    weight_noise.picture("trec", runs)
    weight_noise.keep("trec", runs)
    papers.write("trec.md", PAGE.format(plan=papers.plan(*weight_noise.PLAN), descent=weight_noise.descent(RATE),
                                       epochs=weight_noise.EPOCHS, seeds=papers.SEEDS,
                                        majority=100 * weight_noise.majority(runs), table=papers.table(
        ["size", "weight noise", "sigma", "accuracy, %", "against none, points, 95%", "paper", "verdict"], rows)))


PAGE = """# Questions, with noise on the weights

`make papers-trec DATA=FOLDER{plan}` (DATA alone: the whole table).

TREC's six classes by the six encoder-decoder transformers of the paper's Table 1 on
frozen word vectors of 25 (GloVe's of 6B tokens, projected; the paper takes Twitter's), without noise and with the four
modes. The paper tells neither optimiser nor rates: here
{descent}, gradients clipped at a norm of 1, batches of 32, dropout 0.1, {epochs} epochs. Accuracy on the
test set after the last, mean ± deviation over {seeds} seeds ([trec.csv](trec.csv)); always the most frequent class of the training set:
{majority:.1f}%. The paper's one figure is that narrow networks gain about 20 points by layer-before: half of that counts
as agreement.

{table}
![Accuracy by size and mode](trec.svg)
"""

if __name__ == "__main__":
    main()
