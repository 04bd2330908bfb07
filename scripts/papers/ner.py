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
    """Until accuracy on dev was 95% of the way from that of the most frequent label to that of the last epoch; nothing where
    the last is no better than that label."""
    lines = [line["dev"] for line in papers.log(folder)]
    start, end = lines[0]["majority"], lines[-1]["accuracy"]
    return 1 + next(k for k, dev in enumerate(lines) if dev["accuracy"] >= start + 0.95 * (end - start)) if end > start else ""


def begin(plan):
    folder = papers.data("ner_wnut17", *FILES, page="https://noisy-text.github.io/2017/emerging-rare-entities.html")
    split = [a for flag, name in zip(("--train", "--dev", "--test"), FILES) for a in (flag, os.path.join(folder, name))]
    train = weight_noise.trainer("ner", plan, "--format", "conll", "--metric", "accuracy", *split)

    def measure(key, seed):
        run = train(key, seed)
        return {**weight_noise.tested(run, "entity_f1"), "epochs": epochs(run)}

    return weight_noise.networks(plan), measure


def learnt(kept, size):
    """Whether the taggers of a size are half a point better without noise than the most frequent label."""
    return statistic.mean(kept.values("accuracy", (size, "none", "0"))) > weight_noise.majority(kept) + 0.005


def verdict(kept, key):
    """Of the same accuracy, and of deep taggers coming to it sooner."""
    if not learnt(kept, key[0]):
        return "cannot tell: hardly above the most frequent label"
    said = [weight_noise.within(0.01, *kept.pairs("accuracy", key, weight_noise.quiet(key)))]
    if "deep" in key[0]:
        said.append(statistic.verdict(-1, *kept.pairs("epochs", key, weight_noise.quiet(key))))
    return ", ".join(said)


def noisy(kept):
    """The taggers with noise that have a pair without."""
    return [key for key in kept.names() if key[1] != "none" and kept.pairs("accuracy", key, weight_noise.quiet(key))[0]]


def fields(kept):
    rows = []
    for key in kept.names():
        size, mode, sigma = key
        row = [size, mode, "" if mode == "none" else sigma, len(kept.values("accuracy", key)),
               statistic.told(kept.values("accuracy", key), 2, 100), statistic.told(kept.values("entity_f1", key), 1, 100),
               statistic.told(kept.values("epochs", key), 1) if kept.values("epochs", key) else "never"]
        if key in noisy(kept):
            row += [statistic.compared(*kept.pairs(measure, key, weight_noise.quiet(key)), digits, 100)
                    for measure, digits in (("accuracy", 2), ("entity_f1", 1))]
            row += ["the same" + (", sooner" if "deep" in size else ""), verdict(kept, key)]
        rows.append(row + [""] * (11 - len(row)))
    return {"descent": weight_noise.descent(kept.plan), "majority": f"{100 * weight_noise.majority(kept):.2f}",
            "table": papers.table(["size", "weight noise", "sigma", "seeds", "accuracy, %", "entity F1, %", "epochs to 95%",
                                   "accuracy against none, points, 95%", "F1 against none, points, 95%", "paper", "verdict"],
                                  rows)}


PAGE = """# Named entities, with noise on the weights

`{command}`, with DATA=FOLDER.{ran}

The BiLSTM taggers of the paper's Table 2 on frozen word vectors of 25 (GloVe's of 6B tokens, projected). CoNLL-2003, which
it takes, is not free; these are WNUT-17's rare entities, which are harder. Here {descent}; plain gradient descent
finds nothing but the most frequent label in as many epochs; gradients clipped at a norm of 1, batches of 32, {EPOCHS}
epochs. Accuracy by word and F1 by entity on the test set after the epoch that was best on dev, mean ± deviation over
the seeds ([ner.csv](ner.csv)); always the most frequent label: {majority}%, an F1 of 0. Epochs are counted on dev, until
accuracy was 95% of the way from the most frequent label's to that of the last epoch; never: the last is no better than
that label, in any seed.

The paper says that accuracy stays the same (a point counts as that) and that deep taggers come to it in fewer epochs; a
tagger hardly better than the most frequent label (half a point) says nothing about either. F1, of which the paper says
nothing, is what tells such a tagger from that label. Of other rates one seed each was tried: eight layers (`deep`) find
nothing in 40 epochs at 0.001 and 0.0003 either; four layers of 400 (`wide`) fall back to that label at 0.005. An epoch of theirs
takes a minute of a processor, so that of their noises one was run. Eight layers of 400 (`widedeep`) find nothing in 16 epochs
at 0.001, in bf16, without noise and with `layer-before`.

{table}
![Accuracy by size and mode](ner.svg)
"""

experiment = papers.Experiment(
    "ner", keys=["size", "mode", "sigma"], begin=begin, page=PAGE, fields=fields,
    plan=weight_noise.plan(SIZES, "adamw", "0.002 wide=0.001 widedeep=0.001"),
    pictures=lambda kept: weight_noise.picture(kept, "ner"))

if __name__ == "__main__":
    experiment.main()
