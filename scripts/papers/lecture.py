#!/usr/bin/env python3
"""The lecture notes' network (002): full-width heads, nothing scaled, masked, normed or added; here it sorts questions.

make papers-lecture DATA=FOLDER, with FOLDER/trec holding TREC.train.txt and TREC.test.txt. SEEDS=3, EPOCHS=10.
"""
import json
import os

import papers

EPOCHS = int(os.environ.get("EPOCHS", "10"))
VOCAB = os.environ.get("VOCAB", "1024")
LABELS = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]


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
    path = os.path.join(papers.RUNS, "lecture", name.replace(", ", "-") + ".json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(body, f)
    return path


def main():
    folder = papers.data("trec", "TREC.train.txt", "TREC.test.txt", page="https://cogcomp.seas.upenn.edu/Data/QA/QC/")
    train, test = (os.path.join(folder, f"TREC.{part}.txt") for part in ("train", "test"))
    tokenizer = os.path.join(papers.RUNS, "lecture", "tokenizer.json")
    if not os.path.exists(tokenizer):
        os.makedirs(os.path.dirname(tokenizer), exist_ok=True)
        papers.run(os.path.join(papers.BUILD, "noised-train"), "tokenizer", "--data", train, "--vocab-size", VOCAB, "--out",
                   tokenizer)
    with open(tokenizer, encoding="utf-8") as f:
        said = json.load(f)
    vocab = max([*said["model"]["vocab"].values(), *(t["id"] for t in said.get("added_tokens", []))]) + 1
    curves, rows, majority = {}, [], 0
    for name in ("transformer", "lecture", "lecture, residual"):
        path = papers.train("finetune", f"lecture/{name.replace(', ', '-')}", "--config", config(name, vocab),
                            "--tokenizer", tokenizer, "--train", train, "--dev", test, "--format", "trec", "--truncate",
                            "--epochs", EPOCHS, "--batch", 32, "--lr", "1e-3", "--seeds", papers.SEEDS)
        folders = [os.path.join(path, f"seed-{s + 1}") for s in range(papers.SEEDS)] if papers.SEEDS > 1 else [path]
        curves[name] = [[100 * line["dev"]["accuracy"] for line in papers.log(f)] for f in folders]
        majority = papers.results(path)["dev"]["majority"]
        rows.append([name, papers.told([c[-1] for c in curves[name]])])
    papers.keep("lecture", ["network"], accuracy={name: [c[-1] for c in found] for name, found in curves.items()})
    papers.write("lecture.svg", papers.curves("TREC: accuracy on the test set", "epoch", "%", curves))
    papers.write("lecture.md", PAGE.format(epochs=EPOCHS, seeds=papers.SEEDS, majority=100 * majority,
                                           table=papers.table(["network", "accuracy, %"], rows)))


PAGE = """# The lecture notes' network

`make papers-lecture DATA=FOLDER` (002). `H_h = V_h H softmax((K_h H)^T Q_h H)`, two heads of the full width; what they
make is put under each other and fed into one sigmoid layer, `H = sigmoid(W [H_1; H_2] + b)`; no scale, mask, residual or
norm. The notes define the network and report no experiment; here two such blocks sort TREC's questions into six classes
beside a transformer of the same width (32), from token embeddings that are learned with them. Accuracy on the test set
after {epochs} epochs, mean ± deviation over {seeds} seeds ([lecture.csv](lecture.csv)); always the most frequent class of the training set:
{majority:.1f}%.

{table}
![Accuracy by epoch](lecture.svg)
"""

if __name__ == "__main__":
    main()
