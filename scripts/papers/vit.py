#!/usr/bin/env python3
"""A vision transformer on MNIST with and without NOBLE's branches, with and without Mixup and CutMix (003, Table 3).

make papers-vit. SEEDS=3, EPOCHS=20, IMAGES=60000, TESTS=10000, BATCH=256, AUGMENTATION="none mixed".
"""
import json
import os

import fetch_mnist
import papers

EPOCHS = int(os.environ.get("EPOCHS", "20"))
IMAGES = int(os.environ.get("IMAGES", "60000"))
TESTS = int(os.environ.get("TESTS", "10000"))
WARMUP = max(EPOCHS // 4, 1)
BATCH = int(os.environ.get("BATCH", "256"))
WORDS = {"none": "none", "mixed": "Mixup + CutMix"}
# branch, augmentation: the paper's training loss and top-1 where it tells them.
PAPER = {("plain", "none"): "0.622", ("NOBLE", "none"): "0.591, top-1 +0.14", ("plain", "Mixup + CutMix"): "2.462",
         ("NOBLE", "Mixup + CutMix"): "2.423, top-1 +0.11", ("start", "none"): "", ("start", "Mixup + CutMix"): ""}
RANKS = {"NOBLE": 4, "start": 0}  # start: NOBLE's initial weights without branches
AUGMENTATIONS = [WORDS[a] for a in os.environ.get("AUGMENTATION", " ".join(WORDS)).split()]


def config(branch):
    body = {
        "model_type": "noised", "task": "image-classification", "causal": False, "hidden_size": 64,
        "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16, "max_position_embeddings": 17,
        "norm": "layernorm", "position": "learned", "bias": True, "pool": "first",
        "input": {"kind": "patches", "image_size": [28, 28], "channels": 1, "patch_size": 7},
        "id2label": {str(i): str(i) for i in range(10)}, "mlp": {"activation": "gelu", "intermediate_size": 256},
        "attention": {"kind": "mha"},
    }
    if branch in RANKS:
        body["noble"] = {"rank": RANKS[branch]}
    path = os.path.join(papers.RUNS, "vit", f"{branch}.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(body, f)
    return path


def seed_folders(path):
    return [os.path.join(path, f"seed-{s + 1}") for s in range(papers.SEEDS)] if papers.SEEDS > 1 else [path]


def main():
    mnist = fetch_mnist.mnist()
    subset = os.path.join(papers.RUNS, "vit", "data")
    os.makedirs(subset, exist_ok=True)
    train = fetch_mnist.some_images(mnist, "train", IMAGES, subset)
    test = fetch_mnist.some_images(mnist, "t10k", TESTS, subset)
    losses, top1, curves = {}, {}, {}
    plan = {key: told for key, told in PAPER.items() if key[1] in AUGMENTATIONS}
    for branch, augmentation in plan:
        mixing = ["--mixup", 0.8, "--cutmix", 1.0] if augmentation != "none" else []
        path = papers.train("finetune", f"vit/{branch}-{'mixed' if mixing else 'none'}", "--config", config(branch),
                            "--train", train, "--dev", test, "--epochs", EPOCHS, "--warmup-epochs", WARMUP,
                            "--schedule", "cosine", "--batch", BATCH, "--lr", "1e-3", "--weight-decay", 0.05, *mixing,
                            "--seeds", papers.SEEDS)
        logs = [papers.log(f) for f in seed_folders(path)]
        losses[branch, augmentation] = [lines[-1]["loss"] for lines in logs]
        top1[branch, augmentation] = [100 * lines[-1]["dev"]["accuracy"] for lines in logs]
        curves[f"{branch}, {augmentation}"] = [[100 * line["dev"]["accuracy"] for line in lines] for lines in logs]
    rows = [[branch, augmentation, told, papers.told(losses[branch, augmentation], 4),
             papers.told(top1[branch, augmentation])] for (branch, augmentation), told in plan.items()]
    claims = []
    for augmentation, loss, gain in (("Mixup + CutMix", 2.423 - 2.462, 0.11), ("none", 0.591 - 0.622, 0.14)):
        if augmentation not in AUGMENTATIONS:
            continue
        for other in ("plain", "start"):
            for what, values, claimed in (("training loss", losses, loss), ("top-1", top1, gain)):
                a, b = values["NOBLE", augmentation], values[other, augmentation]
                d, half = papers.difference(a, b)
                claims.append([augmentation, f"{what}, NOBLE − {other}", f"{claimed:+.3f}", f"{d:+.4f} ± {half:.4f}",
                               papers.verdict(claimed, a, b)])
    papers.keep("vit", ["network", "augmentation"], loss=losses, top1=top1)
    papers.write("vit.svg", papers.curves("MNIST: top-1 on the test set", "epoch", "top-1, %", curves))
    papers.write("vit.md", PAGE.format(plan=papers.plan("SEEDS", "EPOCHS", "IMAGES", "TESTS", "BATCH",
                                                        "AUGMENTATION"), epochs=EPOCHS, warmup=WARMUP, batch=BATCH, images=IMAGES, tests=TESTS, seeds=papers.SEEDS,
                                       table=papers.table(["network", "augmentation", "paper", "training loss",
                                                           "top-1, %"], rows),
                                       claims=papers.table(["augmentation", "claim", "paper", "ours, 95%",
                                                            "verdict"], claims)))


PAGE = """# A vision transformer with NOBLE's branches

`make papers-vit{plan}` (003, Table 3).

The paper trains ViT-S on ImageNet, which nobody has in a package; this is MNIST: the first {images}
of its training images, {tests} of the test set, 28 × 28 pixels in patches of 7, width 64, 4 layers, 4 heads, AdamW 1e-3,
weight decay 0.05, batch {batch}, {epochs} epochs, the first {warmup} of them warm-up, NOBLE of rank 4; `start` has
NOBLE's initial weights and no branches. At the end of the last epoch, mean ± deviation over {seeds} seeds, each of which is in [vit.csv](vit.csv); guessing the most frequent digit
gives 11.35%.

{table}
{claims}
![Top-1 by epoch](vit.svg)
"""

if __name__ == "__main__":
    main()
