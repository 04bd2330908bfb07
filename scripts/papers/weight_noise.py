"""Noise on the weights while they are trained (the noise-injection paper): what trec and ner have in common.

Every size of a table without noise and with the paper's four modes at three sigmas, the same seeds for all.
SIZES, MODES, SIGMAS, SEEDS, EPOCHS, OPTIMIZER and LR change the plan; LR is a rate, behind it SIZE=RATE of sizes with one of
their own. VECTORS names word vectors of another file.
"""
import os

import papers
import pictures
import statistic


def plan(sizes, optimizer, rate):
    return {"SEEDS": 5, "EPOCHS": 30, "SIZES": " ".join(sizes), "MODES": "all-before all-after layer-before layer-after",
            "SIGMAS": "0.001 0.01 0.05", "OPTIMIZER": optimizer, "LR": rate}


def vectors():
    path = os.environ.get("VECTORS", "")
    if path and not os.path.exists(path):
        raise SystemExit(f"papers: VECTORS={path} is not there")
    folder = path or papers.data("vectors", "glove25_pca_subset.txt", page="https://nlp.stanford.edu/projects/glove/ "
                                 "(or VECTORS=glove.twitter.27B.25d.txt)")
    return path or os.path.join(folder, "glove25_pca_subset.txt")


def rates(settings):
    """The rate of most sizes, and {size: rate} of the others."""
    most, *others = settings["LR"].split()
    return most, dict(other.split("=") for other in others)


def descent(settings):
    most, others = rates(settings)
    name = "AdamW" if settings["OPTIMIZER"] == "adamw" else "plain gradient descent"
    return f"{name} at {most}" + "".join(f", `{size}` at {rate}" for size, rate in others.items())


def networks(settings):
    """(size, mode, sigma) of every network, a size without noise first."""
    noise = [(mode, sigma) for mode in settings["MODES"].split() for sigma in settings["SIGMAS"].split()]
    return [(size, *how) for size in settings["SIZES"].split() for how in [("none", "0"), *noise]]


def trainer(task, settings, *args):
    """((size, mode, sigma), seed) -> the folder of the run."""
    words = vectors()

    def train(key, seed):
        size, mode, sigma = key
        noise = [] if mode == "none" else ["--perturb", mode, "--perturb-sigma", sigma]
        most, others = rates(settings)
        return papers.train("finetune", f"{task}/{size}.{mode}.{sigma}-{seed}", "--config", f"{task}-{size}", *args, *noise,
                            "--vectors", words, "--epochs", settings["EPOCHS"], "--batch", 32, "--optimizer",
                            settings["OPTIMIZER"], "--lr", others.get(size, most), "--weight-decay", 0, "--seed", seed)

    return train


def tested(folder, *more):
    """Accuracy on the test set, other measures of it, and the share of the most frequent label."""
    test = papers.results(folder)["runs"][0]["test"]
    return {m: test[m] for m in ("accuracy", "majority", *more)}


def majority(kept):
    return max(kept.values("majority", kept.names()[0]))


def quiet(key):
    """The network of the same size without noise."""
    return key[0], "none", "0"


def missing(kept):
    """The plan's networks that no seed was run of, for a page."""
    places = {}
    for size, mode, _ in networks(kept.plan):
        if not any(key[:2] == (size, mode) for key in kept.names()):
            places.setdefault(size, {})[mode] = True
    return "".join(f" Not run: `{size}` with {', '.join(modes)}." for size, modes in places.items())


def within(most, a, b):
    """Of a claim that a and b are the same but for `most`."""
    d, half = statistic.difference(a, b)
    return "agrees" if abs(d) + half < most else "does not" if abs(d) - half > most else "cannot tell"


def picture(kept, name):
    """Of every mode at the sigma that did best, a group of bars a size."""
    groups = {}
    for size in dict.fromkeys(key[0] for key in kept.names()):
        groups[size] = {}
        for mode in ["none", *kept.plan["MODES"].split()]:
            found = [[100 * x for x in kept.values("accuracy", key)] for key in kept.names() if key[:2] == (size, mode)]
            found = [values for values in found if values]
            if found:
                groups[size][mode] = max(found, key=statistic.mean)
    return {f"{name}.svg": pictures.bars("Accuracy on the test set, every mode at its best sigma", "%", groups,
                                         [("most frequent label", 100 * majority(kept))])}
