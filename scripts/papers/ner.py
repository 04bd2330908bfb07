#!/usr/bin/env python3
"""Named entities with noise on the weights of BiLSTM taggers (noise injection, Table 2, Figure 2).

make papers-ner DATA=FOLDER, with FOLDER/ner_wnut17 holding wnut17train.conll, emerging.dev.conll and
emerging.test.annotated, and FOLDER/vectors. SEEDS=5, EPOCHS=30, SIZES, MODES, SIGMAS, OPTIMIZER, LR, VECTORS.
"""
import os

import papers
import statistic
import weight_noise

SIZES = ["wide", "deep", "shallow", "widedeep"]
FILES = "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"


def epochs(folder):
    """Until accuracy on dev was 95% of that of the last."""
    reached = [line["dev"]["accuracy"] for line in papers.log(folder)]
    return 1 + next(k for k, a in enumerate(reached) if a >= 0.95 * reached[-1])


def begin(plan):
    folder = papers.data("ner_wnut17", *FILES, page="https://noisy-text.github.io/2017/emerging-rare-entities.html")
    split = [a for flag, name in zip(("--train", "--dev", "--test"), FILES) for a in (flag, os.path.join(folder, name))]
    train = weight_noise.trainer("ner", plan, "--format", "conll", "--metric", "accuracy", *split)

    def measure(key, seed):
        run = train(key, seed)
        return {**weight_noise.tested(run, "entity_f1"), "epochs": epochs(run)}

    return weight_noise.networks(plan), measure


def fields(kept):
    majority, rows = weight_noise.majority(kept), []
    for key in kept.names():
        size, mode, sigma = key
        ours, base = kept.pairs("accuracy", key, weight_noise.quiet(key))
        took, base_took = kept.pairs("epochs", key, weight_noise.quiet(key))
        noisy, verdict = mode != "none", ""
        if noisy and ours:
            verdict = weight_noise.within(0.01, ours, base)
            if "deep" in size:
                verdict += ", " + statistic.verdict(1, base_took, took)
            if statistic.mean(base) <= majority + 0.005:
                verdict = "cannot tell: hardly above the most frequent label"
        claim = "the same" + (", sooner" if "deep" in size else "")
        rows.append([size, mode, sigma if noisy else "", len(kept.values("accuracy", key)),
                     statistic.told(kept.values("accuracy", key), 2, 100), statistic.told(kept.values("entity_f1", key), 1, 100),
                     statistic.told(kept.values("epochs", key), 1), statistic.compared(ours, base, 1, 100) if noisy else "",
                     claim if noisy else "", verdict])
    return {"descent": weight_noise.descent(kept.plan), "majority": f"{100 * majority:.2f}",
            "table": papers.table(["size", "weight noise", "sigma", "seeds", "accuracy, %", "entity F1, %",
                                   "epochs to 95%", "against none, points, 95%", "paper", "verdict"], rows)}


PAGE = """# Named entities, with noise on the weights

`{command}`, with DATA=FOLDER.{ran}

The BiLSTM taggers of the paper's Table 2 on frozen word vectors of 25 (GloVe's of 6B tokens, projected). CoNLL-2003, which
it takes, is not free; these are WNUT-17's rare entities, which are harder. Here {descent}; plain gradient descent
finds nothing but the most frequent label in as many epochs; gradients clipped at a norm of 1, batches of 32, {EPOCHS}
epochs. Accuracy by word and F1 by entity on the test set after the epoch that was best on dev, mean ± deviation over
the seeds ([ner.csv](ner.csv)); always the most frequent label: {majority}%. The paper says that accuracy stays the same (a
point counts as that) and that deep taggers come to it in fewer epochs; a tagger hardly better than the most frequent label
(half a point) says nothing.

{table}
![Accuracy by size and mode](ner.svg)
"""

experiment = papers.Experiment(
    "ner", keys=["size", "mode", "sigma"], plan=weight_noise.plan(SIZES, "adamw", "0.005"), begin=begin, page=PAGE,
    fields=fields, pictures=lambda kept: weight_noise.picture(kept, "ner"))

if __name__ == "__main__":
    experiment.main()
