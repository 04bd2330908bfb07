#!/usr/bin/env python3
"""The lecture notes' network: full-width heads, nothing scaled, masked, normed or added; here it sorts questions.

make papers-lecture DATA=FOLDER, with FOLDER/trec holding TREC.train.txt and TREC.test.txt. SEEDS=5, EPOCHS=10.
"""
import json
import os

import papers
import pictures
import statistic

LABELS = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]
NETWORKS = "transformer", "lecture", "lecture, residual"


def config(name, vocab):
    body = {
        "model_type": "noised", "task": "text-classification", "vocab_size": vocab, "hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
        "norm": "layernorm", "position": "learned", "bias": True, "pool": "mean", "causal": False,
        "id2label": {str(i): label for i, label in enumerate(LABELS)},
        "mlp": {"activation": "gelu", "intermediate_size": 64}, "attention": {"kind": "mha"},
    }
    if name != "transformer":
        body["attention"], body["head_dim"] = {"kind": "lecture"}, 32
        body["mlp"] = {"activation": "sigmoid", "intermediate_size": 0}
        body["block"] = {"norm": "none", "residual": name == "lecture, residual"}
    return papers.config("lecture", name.replace(", ", "-"), body)


def begin(plan):
    folder = papers.data("trec", "TREC.train.txt", "TREC.test.txt", page="https://cogcomp.seas.upenn.edu/Data/QA/QC/")
    train, test = (os.path.join(folder, f"TREC.{part}.txt") for part in ("train", "test"))
    words = papers.tokenizer("lecture", plan["VOCAB"], train)
    with open(words, encoding="utf-8") as f:
        said = json.load(f)
    vocab = max([*said["model"]["vocab"].values(), *(t["id"] for t in said.get("added_tokens", []))]) + 1

    def measure(name, seed):
        run = papers.train("finetune", f"lecture/{name.replace(', ', '-')}-{seed}", "--config", config(name, vocab),
                           "--tokenizer", words, "--train", train, "--dev", test, "--format", "trec", "--truncate",
                           "--epochs", plan["EPOCHS"], "--batch", 32, "--lr", "1e-3", "--seed", seed)
        curve = [100 * line["dev"]["accuracy"] for line in papers.log(run)]
        return {"accuracy": curve[-1], "majority": 100 * papers.results(run)["dev"]["majority"], "curve": curve}

    return list(NETWORKS), measure


def fields(kept):
    return {"majority": f"{kept.values('majority', 'transformer')[0]:.1f}",
            "table": papers.table(["network", "seeds", "accuracy, %"], [
                [name, len(kept.values("accuracy", name)), statistic.told(kept.values("accuracy", name))] for name in NETWORKS])}


PAGE = """# The lecture notes' network

`{command}`, with DATA=FOLDER.{ran} `H_h = V_h H softmax((K_h H)^T Q_h H)`, two heads of the full width; what they
make is put under each other and fed into one sigmoid layer, `H = sigmoid(W [H_1; H_2] + b)`; no scale, mask, residual or
norm. The notes define the network and report no experiment; here two such blocks sort TREC's questions into six classes
beside a transformer of the same width (32), from token embeddings that are learned with them. Accuracy on the test set
after {EPOCHS} epochs, mean ± deviation over the seeds ([lecture.csv](lecture.csv)); always the most frequent class of the
training set: {majority}%.

{table}
![Accuracy by epoch](lecture.svg)
"""

experiment = papers.Experiment(
    "lecture", keys=["network"], plan={"SEEDS": 5, "EPOCHS": 10, "VOCAB": 1024}, begin=begin, page=PAGE, fields=fields,
    pictures=lambda kept: {"lecture.svg": pictures.curves(
        "TREC: accuracy on the test set", "epoch", "%", {name: kept.curves(name) for name in kept.names()})})

if __name__ == "__main__":
    experiment.main()
