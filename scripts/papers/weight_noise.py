"""Noise on the weights while they are trained (the noise-injection paper): what trec and ner have in common.

Every size of a table without noise and with the paper's four modes at three sigmas, the same seeds for all.
SIZES, MODES, SIGMAS, SEEDS, EPOCHS, OPTIMIZER and LR change the plan; VECTORS names word vectors of another file.
"""
import os

import papers

MODES = os.environ.get("MODES", "all-before all-after layer-before layer-after").split()
SIGMAS = os.environ.get("SIGMAS", "0.001 0.01 0.05").split()
EPOCHS = int(os.environ.get("EPOCHS", "30"))
CLAIM_HOLDS = "agrees", "does not", "cannot tell at this size"


def vectors():
    path = os.environ.get("VECTORS", "")
    if path and not os.path.exists(path):
        raise SystemExit(f"papers: VECTORS={path} is not there")
    folder = path or papers.data("vectors", "glove25_pca_subset.txt", page="https://nlp.stanford.edu/projects/glove/ "
                                 "(or VECTORS=glove.twitter.27B.25d.txt)")
    return path or os.path.join(folder, "glove25_pca_subset.txt")


PLAN = "SIZES", "MODES", "SIGMAS", "SEEDS", "EPOCHS", "OPTIMIZER", "LR"


def optimizer(rate):
    """(which, its learning rate) of the plan; `rate` is what there is unless it says otherwise."""
    return os.environ.get("OPTIMIZER", rate[0]), os.environ.get("LR", rate[1])


def descent(rate):
    which, lr = optimizer(rate)
    return f"{'AdamW' if which == 'adamw' else 'plain gradient descent'} at {lr}"


def settings():
    """(mode, sigma) of every run, without noise first."""
    return [("none", "0")] + [(mode, sigma) for mode in MODES for sigma in SIGMAS]


def train(task, sizes, rate, *args):
    """{(size, mode, sigma): [(results of a run, its log), one a seed]}"""
    runs = {}
    words, (which, lr) = vectors(), optimizer(rate)
    for size in os.environ.get("SIZES", " ".join(sizes)).split():
        for mode, sigma in settings():
            noise = [] if mode == "none" else ["--perturb", mode, "--perturb-sigma", sigma]
            path = papers.train("finetune", f"{task}/{size}.{mode}.{sigma}", "--config", f"{task}-{size}", *args, *noise,
                                "--vectors", words, "--seeds", papers.SEEDS, "--epochs", EPOCHS, "--batch", 32,
                                "--optimizer", which, "--lr", lr, "--weight-decay", 0)
            folders = [os.path.join(path, f"seed-{s + 1}") for s in range(papers.SEEDS)] if papers.SEEDS > 1 else [path]
            runs[size, mode, sigma] = list(zip(papers.results(path)["runs"], map(papers.log, folders)))
    return runs


def accuracy(runs):
    return [result["test"]["accuracy"] for result, _ in runs]


def majority(runs):
    return next(iter(runs.values()))[0][0]["test"]["majority"]


def keep(name, runs, **more):
    """NAME.csv: accuracy of every seed, and what else is {key: [of the seeds]}."""
    papers.keep(name, ["size", "mode", "sigma"], accuracy={key: accuracy(found) for key, found in runs.items()}, **more)


def above(least, a, b):
    """Of a claim that a - b is more than `least`."""
    d, half = papers.difference(a, b)
    return CLAIM_HOLDS[0 if d - half > least else 1 if d + half < least else 2]


def within(most, a, b):
    """Of a claim that a and b are the same but for `most`."""
    d, half = papers.difference(a, b)
    return CLAIM_HOLDS[0 if abs(d) + half < most else 1 if abs(d) - half > most else 2]


def against(a, b):
    d, half = papers.difference(a, b)
    return f"{100 * d:+.1f} ± {100 * half:.1f}"


def picture(name, runs):
    """Of every mode at the sigma that did best, a group of bars a size."""
    groups = {}
    for size in dict.fromkeys(key[0] for key in runs):
        groups[size] = {}
        for mode in ["none"] + MODES:
            found = [[100 * x for x in accuracy(r)] for (s, m, _), r in runs.items() if (s, m) == (size, mode)]
            groups[size][mode] = max(found, key=papers.mean)
    papers.write(f"{name}.svg", papers.bars("Accuracy on the test set, every mode at its best sigma", "%", groups,
                                            [("most frequent label", 100 * majority(runs))]))
