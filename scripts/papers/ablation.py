"""Small language models that differ in one thing, on the three books: what noiseformer, sas, noble and completions have in
common. Width 64, two layers, four heads of 16, windows of 128, a vocabulary of 512.
"""
import sys

import papers
import pictures
import statistic

TOKENS = 1024  # of a step
SIGNS = {"above": 1, "below": -1}


def network(width=64, window=128, heads=None, **more):
    """A config of plain attention, but for `more`."""
    heads = heads or width // 16
    return {"model_type": "noised", "vocab_size": 512, "hidden_size": width, "num_hidden_layers": 2,
            "num_attention_heads": heads, "head_dim": width // heads, "max_position_embeddings": window,
            "norm": "rmsnorm", "position": "rope", "attention": {"kind": "mha"},
            "mlp": {"activation": "silu", "gated": True, "intermediate_size": width * 43 // 16}, **more}


def chosen(groups, plan):
    """Of {group: comparisons} those that FIGURES names, each once."""
    names = plan["FIGURES"].split()
    if set(names) - set(groups):
        sys.exit(f"papers: FIGURES names {' '.join(sorted(set(names) - set(groups)))}; there are {' '.join(groups)}")
    return list(dict.fromkeys(comparison for name in names for comparison in groups[name]))


def networks_of(comparisons):
    return list(dict.fromkeys(name for _, a, b, _ in comparisons for name in (b, a)))


def every(plan):
    """Steps between evaluations."""
    return max(plan["STEPS"] // 20, 1)


def trainer(experiment, plan, networks):
    """A function that trains a network of {name: config}: (name, seed) -> its folder."""
    corpus = papers.books()
    words = papers.tokenizer(experiment, 512, *corpus)
    texts = [a for path in corpus for a in ("--data", path)]

    def train(name, seed):
        body = networks[name]
        return papers.train(
            "pretrain", f"{experiment}/{name}-{seed}", "--config", papers.config(experiment, name, body), "--tokenizer",
            words, *texts, "--batch", TOKENS // body["max_position_embeddings"], "--steps", plan["STEPS"], "--warmup",
            plan["STEPS"] // 4, "--lr", "2e-3", "--eval-every", every(plan), "--seed", seed)

    return train


def losses(folder):
    curve = papers.evaluations(folder)
    return {"loss": curve[-1], "curve": curve}


def picture(kept, names):
    return pictures.curves("Validation loss", f"evaluation (every {every(kept.plan)} steps)", "nats",
                           {name: kept.curves(name) for name in names if name in kept.names()})


def told(kept):
    return papers.table(["network", "seeds", "loss"], [
        [name, len(kept.values("loss", name)), statistic.told(kept.values("loss", name), 3)] for name in kept.names()])


def compared(comparisons, kept):
    """Of (where, a, b, what the paper says of a - b): nats, "above", "below", or another word, which has no verdict."""
    rows = []
    for where, a, b, claimed in comparisons:
        pair = kept.pairs("loss", a, b)
        sign = SIGNS.get(claimed, claimed)
        rows.append([where, f"{a} − {b}", claimed if isinstance(claimed, str) else statistic.signed(claimed, 3),
                     statistic.compared(*pair), len(pair[0]), "" if isinstance(sign, str) else statistic.verdict(sign, *pair)])
    return papers.table(["paper", "networks", "its difference", "ours, 95%", "seeds", "verdict"], rows)
