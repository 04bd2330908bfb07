#!/usr/bin/env python3
"""GLUE on NoiseFormer's backbones (NoiseFormer, IV-B and Table II): a linear head on the last token of a frozen network.

make papers-glue DATA=FOLDER, with FOLDER/glue holding CoLA.{train,dev}.tsv, MRPC.{train,test}.tsv, RTE.{train,dev}.tsv,
stsa.binary.train and SST-2.dev.jsonl; QQP, QNLI and MNLI join where FOLDER/glue/{QQP,QNLI,MNLI} hold GLUE's own train.tsv
and dev.tsv (MNLI: dev_matched.tsv). SEEDS=3.
"""
import csv
import json
import os

import papers
import pictures
import statistic

BACKBONES = {"Base": "mha-nano", "Sym": "symmetric-nano", "V1": "noiseformer-v1-nano", "V2": "noiseformer-v2-nano"}
PAPER = {"MRPC": [74.75, 68.87, 73.28, 72.79], "CoLA": [0.15, 0.22, 0.09, 0.10], "RTE": [61.01, 52.7, 58.12, 56.67],
         "SST-2": [81.65, 87.04, 82.68, 82.56], "MNLI": [56.91, 56.05, 55.74, 55.26],
         "QQP": [76.60, 77.64, 76.26, 76.83], "QNLI": [67.30, 68.16, 66.88, 66.73]}
WITH_F1 = "MRPC", "QQP"
OWN = {"MNLI": "dev_matched.tsv", "QQP": "dev.tsv", "QNLI": "dev.tsv"}  # read as they are
NOISY = "V1", "V2"


def rows(path, first, second, label):
    with open(path, encoding="utf-8-sig", newline="") as f:
        for row in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield {"text": row[first], "text_b": row[second], "label": row[label]}


def sentences(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if path.endswith(".jsonl"):
                one = json.loads(line)
                yield {"text": one["sentence"].strip(), "label": str(one["label"])}
            else:
                yield {"text": line[2:].strip(), "label": line[0]}


def cola(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            _, label, _, text = line.rstrip("\n").split("\t")
            yield {"text": text, "label": label}


def prepare(folder):
    """The first four as JSON lines, others where their own files are there, {task: (train, dev)}."""
    def at(name):
        return os.path.join(folder, name)

    sources = {
        "CoLA": (cola(at("CoLA.train.tsv")), cola(at("CoLA.dev.tsv"))),
        "MRPC": (rows(at("MRPC.train.tsv"), "#1 String", "#2 String", "Quality"),
                 rows(at("MRPC.test.tsv"), "#1 String", "#2 String", "Quality")),
        "RTE": (rows(at("RTE.train.tsv"), "sentence1", "sentence2", "label"),
                rows(at("RTE.dev.tsv"), "sentence1", "sentence2", "label")),
        "SST-2": (sentences(at("stsa.binary.train")), sentences(at("SST-2.dev.jsonl"))),
    }
    out = os.path.join(papers.RUNS, "glue", "data")
    os.makedirs(out, exist_ok=True)
    files = {}
    for task, parts in sources.items():
        files[task] = []
        for part, examples in zip(("train", "dev"), parts):
            path = os.path.join(out, f"{task}.{part}.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(e, ensure_ascii=False) + "\n" for e in examples)
            files[task].append(path)
    for task, dev in OWN.items():
        paths = [os.path.join(folder, task, name) for name in ("train.tsv", dev)]
        if all(map(os.path.exists, paths)):
            files[task] = paths
    return files


def backbones(plan):
    """{name: its folder}, each trained once."""
    corpus = papers.books()
    words = papers.tokenizer("glue", 512, *corpus)
    texts = [a for path in corpus for a in ("--data", path)]
    return {name: papers.train("pretrain", f"glue/backbone-{name}", "--config", preset, *texts, "--tokenizer", words,
                               "--steps", plan["STEPS"], "--warmup", plan["STEPS"] // 4, "--lr", "2e-3", "--seed", 1)
            for name, preset in BACKBONES.items()}


def metric(task):
    return "matthews" if task == "CoLA" else "accuracy"


def begin(plan):
    folder = papers.data("glue", "CoLA.train.tsv", "CoLA.dev.tsv", "MRPC.train.tsv", "MRPC.test.tsv", "RTE.train.tsv",
                         "RTE.dev.tsv", "stsa.binary.train", "SST-2.dev.jsonl", page="https://gluebenchmark.com/tasks")
    files, models = prepare(folder), backbones(plan)

    def measure(key, seed):
        """The paper reports the end of the training."""
        task, name, rate, scale = key
        train, dev = files[task]
        path = papers.train("finetune", "glue/" + "-".join((*key, str(seed))), "--init", models[name], "--train", train,
                            "--dev", dev, "--pool", "last", "--freeze", "--truncate", "--epochs", plan["EPOCHS"], "--batch",
                            256 if task == "SST-2" else 32, "--lr", rate, "--metric", metric(task), "--noise-seed", 0,
                            "--noise-scale", scale, "--seed", seed)
        said = papers.log(path)[-1]["dev"]
        return {"score": said[metric(task)], "f1": said["f1"], "majority": papers.results(path)["dev"]["majority"]}

    return [(task, name, rate, scale) for task in files for name in BACKBONES for rate in plan["RATES"].split()
            for scale in (("1", "0") if name in NOISY else ("1",))], measure


def best_rate(kept, task, name):
    rates = [rate for rate in kept.plan["RATES"].split() if kept.values("score", (task, name, rate, "1"))]
    return max(rates, key=lambda rate: statistic.mean(kept.values("score", (task, name, rate, "1"))))


def fields(kept):
    tasks = [task for task in PAPER if any(key[0] == task for key in kept.names())]
    rates, rows, claims = kept.plan["RATES"].split(), [], []
    for task in tasks:
        unit = 1 if metric(task) == "matthews" else 100
        best = {name: best_rate(kept, task, name) for name in BACKBONES if (task, name, rates[0], "1") in kept.names()}
        for (name, rate), paper in zip(best.items(), PAPER[task]):
            scores = [kept.values("score", (task, name, *how)) for how in ((rates[0], "1"), (rate, "1"), (rate, "0"))]
            f1 = statistic.told(kept.values("f1", (task, name, rate, "1")), 2, 100)
            majority = kept.values("majority", (task, name, rate, "1"))[0]
            rows.append([task, name, paper, len(scores[1]), *(statistic.told(s, 2, unit) for s in scores[:2]), rate,
                         f1 if task in WITH_F1 else "", statistic.told(scores[2], 2, unit) if scores[2] else "",
                         f"{unit * majority:.2f}" if unit == 100 else "0"])
        base, *others = PAPER[task]
        for name, number in zip(("Sym", "V1", "V2"), others):
            if name in best:
                pair = kept.pairs("score", (task, name, best[name], "1"), (task, "Base", best["Base"], "1"))
                claims.append([task, f"{name} − Base", statistic.signed(number - base, 2), statistic.compared(*pair, 2, unit),
                               len(pair[0]), statistic.verdict(number - base, *pair)])
    out = [task for task in PAPER if task not in tasks]
    return {"missing": f"Of the paper's seven tasks {', '.join(out)} are not run: their files were not there." if out else "",
            "rates": ", ".join(rates),
            "silent": "" if any(key[3] == "0" for key in kept.names()) else " At noise scale 0 nothing is kept of these runs.",
            "table": papers.table(["task", "backbone", "paper, 124M", "seeds", f"lr {rates[0]}", "best lr", "which",
                                   "its F1", "best lr, noise scale 0", "majority"], rows),
            "claims": papers.table(["task", "claim", "paper", "ours, 95%", "seeds", "verdict"], claims)}


def picture(kept):
    groups = {task: {name: [100 * v for v in kept.values("score", (task, name, best_rate(kept, task, name), "1"))]
                     for name in BACKBONES if any(key[:2] == (task, name) for key in kept.names())}
              for task in dict.fromkeys(key[0] for key in kept.names())}
    return {"glue.svg": pictures.bars("GLUE on frozen nano backbones (CoLA: Matthews × 100)", "score", groups)}


PAGE = """# GLUE on NoiseFormer's backbones

`{command}`, with DATA=FOLDER.{ran} NoiseFormer, IV-B and Table II: the last token of a frozen network after the final
norm, a linear head, cross-entropy, AdamW, {EPOCHS} epochs, batch 32 (SST-2: 256); the noise is on with seed 0. The paper's
backbones have 124M parameters and OpenWebText; ours are the nano presets (127,000 to 135,000 parameters), {STEPS} steps
on three books, so what is compared is the order, not the level. Accuracy in per cent, of CoLA Matthews' correlation,
of MRPC and QQP F1 too, which the paper measures (IV-B) and does not print; at the end of the last epoch, mean ±
deviation over the seeds ([glue.csv](glue.csv)). The head trains at {rates}; the best rate is chosen on the same split that
is shown, which favours all alike. MRPC is scored on its test set, SST-2 trained on whole sentences (stsa), not phrases.
{missing}{silent}

{table}
The differences over seeds that pair, with 95% intervals over the seeds of the head; each backbone was trained once.

{claims}
![GLUE scores by task and backbone](glue.svg)
"""

experiment = papers.Experiment(
    "glue", keys=["task", "backbone", "rate", "scale"],
    plan={"SEEDS": 3, "EPOCHS": 100, "STEPS": 1500, "RATES": "1e-5 1e-3 1e-2"}, begin=begin, page=PAGE, fields=fields,
    pictures=picture)

if __name__ == "__main__":
    experiment.main()
