"""Small language models that differ in one thing, on the three books: what sas, noble and completions have in common.

Width 64, two layers, four heads of 16, windows of 128, a vocabulary of 512. STEPS and SEEDS change the plan; FIGURES
names some of an experiment's groups of comparisons.
"""
import json
import os
import sys

import papers

STEPS = int(os.environ.get("STEPS", "1500"))
EVERY = max(STEPS // 20, 1)
TOKENS = 1024  # of a step
SIGNS = {"above": 1, "below": -1}


def network(width=64, window=128, heads=None, **more):
    """A config of plain attention, but for `more`."""
    heads = heads or width // 16
    return {"model_type": "noised", "vocab_size": 512, "hidden_size": width, "num_hidden_layers": 2,
            "num_attention_heads": heads, "head_dim": width // heads, "max_position_embeddings": window,
            "norm": "rmsnorm", "position": "rope", "attention": {"kind": "mha"},
            "mlp": {"activation": "silu", "gated": True, "intermediate_size": width * 43 // 16}, **more}


def chosen(groups):
    """Of {group: comparisons} those that FIGURES names."""
    names = os.environ.get("FIGURES", " ".join(groups)).split()
    if set(names) - set(groups):
        sys.exit(f"papers: FIGURES names {' '.join(sorted(set(names) - set(groups)))}; there are {' '.join(groups)}")
    return [comparison for name in names for comparison in groups[name]]


def train(experiment, networks, seeds=papers.SEEDS):
    """{name: config} -> {name: [the folder of every seed]}"""
    corpus = [a for path in papers.books() for a in ("--data", path)]
    top = os.path.join(papers.RUNS, experiment)
    os.makedirs(top, exist_ok=True)
    tokenizer = os.path.join(top, "tokenizer.json")
    if not os.path.exists(tokenizer):
        papers.run(os.path.join(papers.BUILD, "noised-train"), "tokenizer", "--vocab-size", 512, "--out", tokenizer,
                   *corpus)
    folders = {}
    for name, config in networks.items():
        path = os.path.join(top, f"{name}.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        folders[name] = [papers.train(
            "pretrain", f"{experiment}/{name}-{seed}", "--config", path, "--tokenizer", tokenizer, *corpus, "--batch",
            TOKENS // config["max_position_embeddings"], "--steps", STEPS, "--warmup", STEPS // 4, "--lr", "2e-3",
            "--eval-every", EVERY, "--seed", seed) for seed in range(1, seeds + 1)]
    return folders


def curves(folders):
    """{name: [validation losses of every seed]}"""
    return {name: [papers.evaluations(path) for path in paths] for name, paths in folders.items()}


def picture(lines):
    return papers.curves("Validation loss", f"evaluation (every {EVERY} steps)", "nats", lines)


def told(losses):
    return papers.table(["network", "loss"], [[name, papers.told(ends, 3)] for name, ends in losses.items()])


def compared(comparisons, losses):
    """Of (where, a, b, what the paper says of a - b): nats, "above", "below", or another word, which has no verdict."""
    rows = []
    for where, a, b, claimed in comparisons:
        d, half = papers.difference(losses[a], losses[b])
        sign = SIGNS.get(claimed, claimed)
        rows.append([where, f"{a} − {b}", claimed if isinstance(claimed, str) else f"{claimed:+.3f}",
                     f"{d:+.3f} ± {half:.3f}",
                     "" if isinstance(sign, str) else papers.verdict(sign, losses[a], losses[b])])
    return papers.table(["paper", "networks", "its difference", "ours, 95%", "verdict"], rows)
