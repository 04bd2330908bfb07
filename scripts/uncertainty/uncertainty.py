#!/usr/bin/env python3
"""Asks networks with and without noise for probabilities, and keeps what they are worth, docs/uncertainty.csv.

make uncertainty DATA=FOLDER, with FOLDER/trec (TREC.{train,test}.txt) and FOLDER/glue (stsa.binary.{train,dev,test}).
SEEDS=5. The page is made of the csv by page.py.
"""
import csv
import io
import itertools
import json
import math
import os

import papers
import scores
import sets

SEEDS = int(os.environ.get("SEEDS", "5"))
MEMBERS = 4
SAMPLES = 1, 4, 16, 64
SCALED = "off", "1", "16"  # of a network with noise: with a temperature too
NOISE = {"plain": None, "pair": {"scope": "head", "span": "pair"}, "sequence": {"scope": "head", "span": "sequence"}}


def tokenizer(data):
    """Of the training texts; images have none."""
    if data.train.endswith("ubyte"):
        return []
    path = os.path.join(sets.folder_of(data.name), "tokenizer.json")
    if not os.path.exists(path):
        papers.run(os.path.join(papers.BUILD, "noised-train"), "tokenizer", "--data", data.train, "--vocab-size", 1024,
                   "--out", path)
    return ["--tokenizer", path]


def config(data, network, words):
    body = {
        "model_type": "noised", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16,
        "norm": "layernorm", "position": "learned", "bias": True, "causal": False, "attention": {"kind": "mha"},
        "id2label": {str(i): label for i, label in enumerate(data.labels)},
        "mlp": {"activation": "gelu", "intermediate_size": 64}, **data.config,
    }
    if words:
        with open(words[1], encoding="utf-8") as f:
            said = json.load(f)
        body["vocab_size"] = 1 + max([*said["model"]["vocab"].values(), *(t["id"] for t in said["added_tokens"])])
    if NOISE[network]:
        body["noise"] = NOISE[network]
    path = os.path.join(sets.folder_of(data.name), f"{network}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(body, f)
    return path


def train(data, network):
    """The folders of its seeds; of plain networks those of all ensembles' members."""
    words = tokenizer(data)
    noise = ["--kl-weight", "1e-2", "--sigma-start", 1] if NOISE[network] else []
    seeds = SEEDS * (1 if noise else MEMBERS)
    path = papers.train("finetune", f"uncertainty/{data.name}/{network}", "--config", config(data, network, words), *words,
                        "--train", data.train, "--dev", data.dev, "--truncate", "--epochs", data.epochs, "--lr", data.rate,
                        "--metric", "accuracy", *noise, "--seeds", seeds, "--threads", 1)
    return [os.path.join(path, f"seed-{s + 1}") for s in range(seeds)]


# ---- asking ----


def settings(network):
    return {"off": {"noise_scale": 0}, **({str(n): {"noise_samples": n} for n in SAMPLES} if NOISE[network] else {})}


def ask(data, network, folder):
    """What the daemon says, {setting: {split: [Opinion]}}; every input has a noise seed of its own."""
    asked, told = os.path.join(folder, "asked.jsonl"), os.path.join(folder, "told.jsonl")
    found = {}
    with open(asked, "w", encoding="utf-8") as f:
        for (setting, body), (split, rows) in itertools.product(settings(network).items(), data.asked.items()):
            if split == "dev" and setting not in SCALED:
                continue
            found.setdefault(setting, {})[split] = [None] * len(rows)
            for i, (content, _) in enumerate(rows):
                f.write(json.dumps({"custom_id": f"{setting} {split} {i}", "method": "POST", "url": "/v1/classify",
                                    "body": {"input": content, "noise_seed": i, **body}}) + "\n")
    papers.run(os.path.join(papers.BUILD, "noised"), "--model", folder, "--batch", asked, "--out", told, "--threads", 1)
    with open(told, encoding="utf-8") as f:
        for line in map(json.loads, f):
            setting, split, i = line["custom_id"].split()
            label, said = data.asked[split][int(i)][1], line["response"]["body"]["data"][0]
            found[setting][split][int(i)] = scores.Opinion(said["probs"], label and data.labels.index(label),
                                                           said.get("mutual_information"))
    return found


def together(networks):
    return {split: list(map(scores.together, zip(*(n[split] for n in networks)))) for split in networks[0]}


# ---- scoring ----


def scale(splits):
    t = scores.temperature(splits["dev"])
    return {split: [scores.scaled(o, t) for o in opinions] for split, opinions in splits.items()}


def measure(splits):
    test, foreign = splits["test"], splits["foreign"]
    information = [o.information for o in test + foreign]
    return {"accuracy": scores.accuracy(test), "log_loss": scores.log_loss(test), "brier": scores.brier(test),
            "ece": scores.calibration_error(test), "errors": scores.of_errors(test),
            "foreign": scores.of_foreign(test, foreign, scores.doubt),
            "foreign_information": math.nan if None in information else
            scores.of_foreign(test, foreign, lambda o: o.information)}


def measures_of(data):
    """{(network, samples, temperature): [measures of every seed]}"""
    found = {}

    def put(network, how, splits):
        found.setdefault((network, how, "no"), []).append(measure(splits))
        if "dev" in splits:
            found.setdefault((network, how, "yes"), []).append(measure(scale(splits)))

    plain = [ask(data, "plain", folder)["off"] for folder in train(data, "plain")]
    for seed in range(SEEDS):
        put("plain", "off", plain[seed])
        put("ensemble", str(MEMBERS), together(plain[seed::SEEDS]))
    for network in ("pair", "sequence"):
        for folder in train(data, network):
            for how, splits in ask(data, network, folder).items():
                put(network, how, splits)
    return found


def main():
    out = io.StringIO()
    columns = ["set", "network", "samples", "temperature", "seed"]
    rows = None
    for make in sets.ALL.values():
        data = make()
        for key, found in measures_of(data).items():
            for i, measures in enumerate(found):
                if rows is None:
                    rows = csv.DictWriter(out, [*columns, *measures], lineterminator="\n")
                    rows.writeheader()
                rows.writerow({**dict(zip(columns, (data.name, *key, i + 1))), **{m: f"{v:.6g}" for m, v in measures.items()}})
        papers.say(f"{data.name} is measured")
    papers.write({"uncertainty.csv": out.getvalue()})


if __name__ == "__main__":
    main()
