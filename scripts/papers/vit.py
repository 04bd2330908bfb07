#!/usr/bin/env python3
"""A vision transformer on MNIST with and without NOBLE's branches, with and without Mixup and CutMix (NOBLE, Table 3).

make papers-vit. SEEDS=3, EPOCHS=20, IMAGES=60000, TESTS=10000, BATCH=256, AUGMENTATION="none mixed".
"""
import branches
import fetch_mnist
import papers
import pictures
import statistic

HOST = {
    "model_type": "noised", "task": "image-classification", "causal": False, "hidden_size": 64,
    "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16, "max_position_embeddings": 17,
    "norm": "layernorm", "position": "learned", "bias": True, "pool": "first",
    "input": {"kind": "patches", "image_size": [28, 28], "channels": 1, "patch_size": 7},
    "id2label": {str(i): str(i) for i in range(10)}, "mlp": {"activation": "gelu", "intermediate_size": 256},
    "attention": {"kind": "mha"},
}
NETWORKS = branches.arms(HOST, 4)
MIXING = {"none": [], "mixed": ["--mixup", 0.8, "--cutmix", 1.0]}
# The paper's training loss, and what NOBLE gains in loss and top-1.
PAPER = {("kaiming", "none"): "0.622", ("NOBLE", "none"): "0.591", ("kaiming", "mixed"): "2.462",
         ("NOBLE", "mixed"): "2.423"}
GAINS = {"none": (-0.031, 0.14), "mixed": (-0.039, 0.11)}


def warmup(plan):
    return max(plan["EPOCHS"] // 4, 1)


def begin(plan):
    mnist, folder = fetch_mnist.mnist(), papers.place("vit", "data", "")
    train = fetch_mnist.some_images(mnist, "train", plan["IMAGES"], folder)
    test = fetch_mnist.some_images(mnist, "t10k", plan["TESTS"], folder)

    def measure(key, seed):
        name, mixing = key
        log = papers.log(papers.train(
            "finetune", f"vit/{name}-{mixing}-{seed}", "--config", papers.config("vit", name, NETWORKS[name]), "--train",
            train, "--dev", test, "--epochs", plan["EPOCHS"], "--warmup-epochs", warmup(plan), "--schedule", "cosine",
            "--batch", plan["BATCH"], "--lr", "1e-3", "--weight-decay", 0.05, *MIXING[mixing], "--seed", seed))
        curve = [100 * line["dev"]["accuracy"] for line in log]
        return {"loss": log[-1]["loss"], "top1": curve[-1], "curve": curve}

    return [(name, mixing) for mixing in plan["AUGMENTATION"].split() for name in NETWORKS], measure


def fields(kept):
    rows = [[name, mixing, PAPER.get((name, mixing), ""), len(kept.values("loss", (name, mixing))),
             statistic.told(kept.values("loss", (name, mixing)), 4), statistic.told(kept.values("top1", (name, mixing)))]
            for name, mixing in kept.names()]
    claims = []
    for mixing in kept.plan["AUGMENTATION"].split():
        for what, measure, gain in zip(("training loss", "top-1"), ("loss", "top1"), GAINS[mixing]):
            claims += branches.claims(kept, f"{mixing}: {what}", measure, gain, statistic.signed(gain, 3),
                                      key=lambda name, mixing=mixing: (name, mixing))
    return {"warmup": warmup(kept.plan), "hosts": branches.WORDS, "claims": branches.table(claims),
            "table": papers.table(["network", "augmentation", "paper", "seeds", "training loss", "top-1, %"], rows)}


PAGE = """# A vision transformer with NOBLE's branches

`{command}` (NOBLE, Table 3).{ran}

The paper trains ViT-S on ImageNet, with RandAugment throughout, which nobody has in a package; this is MNIST, as it is or
with Mixup (0.8) and CutMix (1.0), `mixed`: the first {IMAGES} of its training images, {TESTS} of the test set, 28 × 28
pixels in patches of 7, width 64, 4 layers, 4 heads, AdamW 1e-3, weight decay 0.05, batch {BATCH}, {EPOCHS} epochs, the
first {warmup} of them warm-up, NOBLE of rank 4. {hosts} At the end of the last epoch, mean ± deviation over the seeds
([vit.csv](vit.csv)); guessing the most frequent digit gives 11.35%.

{table}
{claims}
![Top-1 by epoch](vit.svg)
"""

experiment = papers.Experiment(
    "vit", keys=["network", "augmentation"],
    plan={"SEEDS": 3, "EPOCHS": 20, "IMAGES": 60000, "TESTS": 10000, "BATCH": 256, "AUGMENTATION": "none mixed"},
    begin=begin, page=PAGE, fields=fields, pictures=lambda kept: {"vit.svg": pictures.curves(
        "MNIST: top-1 on the test set", "epoch", "top-1, %",
        {", ".join(key): kept.curves(key) for key in kept.names()})})

if __name__ == "__main__":
    experiment.main()
