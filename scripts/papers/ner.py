#!/usr/bin/env python3
"""Named entities with noise on the weights of BiLSTM taggers (noise injection, Table 2, Figure 2).

make papers-ner DATA=FOLDER, with FOLDER/ner_wnut17 holding wnut17train.conll, emerging.dev.conll and
emerging.test.annotated, and FOLDER/vectors. SEEDS=3, EPOCHS=30, SIZES, MODES, SIGMAS, OPTIMIZER, LR, VECTORS.
"""
import os

import papers
import weight_noise

RATE = "adamw", 0.005
SIZES = ["wide", "deep", "shallow", "widedeep"]
FILES = "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"


def epochs(log):
    """Until accuracy on dev was 95% of that of the last."""
    reached = [line["dev"]["accuracy"] for line in log]
    return 1 + next(k for k, a in enumerate(reached) if a >= 0.95 * reached[-1])


def main():
    folder = papers.data("ner_wnut17", *FILES, page="https://noisy-text.github.io/2017/emerging-rare-entities.html")
    split = [a for flag, name in zip(("--train", "--dev", "--test"), FILES) for a in (flag, os.path.join(folder, name))]
    runs = weight_noise.train("ner", SIZES, RATE, "--format", "conll", "--metric", "accuracy", *split)
    majority, rows = weight_noise.majority(runs), []
    for (size, mode, sigma), found in runs.items():
        plain = runs[size, "none", "0"]
        ours, base = weight_noise.accuracy(found), weight_noise.accuracy(plain)
        took, base_took = ([epochs(log) for _, log in r] for r in (found, plain))
        noisy, learnt = mode != "none", papers.mean(base) > majority + 0.005
        verdict = weight_noise.within(0.01, ours, base)
        if "deep" in size:
            verdict += ", " + weight_noise.above(0, base_took, took)
        claim = "the same" + (", sooner" if "deep" in size else "")
        rows.append([size, mode, sigma if noisy else "", papers.told(ours, 2, 100),
                     papers.told([r["test"]["entity_f1"] for r, _ in found], 1, 100), papers.told(took, 1),
                     weight_noise.against(ours, base) if noisy else "", claim if noisy else "",
                     "" if not noisy else verdict if learnt else "cannot tell: hardly above the most frequent label"])
    weight_noise.picture("ner", runs)
    weight_noise.keep("ner", runs, entity_f1={key: [r["test"]["entity_f1"] for r, _ in found] for key, found in runs.items()},
                      epochs={key: [epochs(log) for _, log in found] for key, found in runs.items()})
    papers.write("ner.md", PAGE.format(plan=papers.plan(*weight_noise.PLAN), descent=weight_noise.descent(RATE),
                                       epochs=weight_noise.EPOCHS, seeds=papers.SEEDS,
                                       majority=100 * majority, table=papers.table(
        ["size", "weight noise", "sigma", "accuracy, %", "entity F1, %", "epochs to 95%",
         "against none, points, 95%", "paper", "verdict"], rows)))


PAGE = """# Named entities, with noise on the weights

`make papers-ner DATA=FOLDER{plan}` (DATA alone: the whole table).

The BiLSTM taggers of the paper's Table 2 on frozen word vectors of 25 (GloVe's of 6B tokens, projected). CoNLL-2003, which
it takes, is not free; these are WNUT-17's rare entities, which are harder. Here {descent}; plain gradient descent
finds nothing but the most frequent label in as many epochs; gradients clipped at a norm of 1, batches of 32, {epochs}
epochs. Accuracy by word and F1 by entity on the test set after the epoch that was best on dev, mean ± deviation over
{seeds} seeds ([ner.csv](ner.csv)); always the most frequent label: {majority:.2f}%. The paper says that accuracy stays the same (a point
counts as that) and that deep taggers come to it in fewer epochs; a tagger hardly better than the most frequent label
(half a point) says nothing.

{table}
![Accuracy by size and mode](ner.svg)
"""

if __name__ == "__main__":
    main()
