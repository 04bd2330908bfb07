#!/usr/bin/env python3
"""Zero-shot questions (SAS, Table 1): the likeliest of several continuations.

make papers-zero-shot DATA=FOLDER, with FOLDER/eval holding arc_easy.jsonl, piqa.jsonl, openbook_qa.jsonl, siqa.jsonl,
boolq.jsonl, hellaswag_1k.jsonl and lambada_openai.jsonl; arc_challenge.jsonl, sciq.jsonl and winogrande.jsonl are asked
where they are. prompts.py says what their lines hold. SEEDS=1, STEPS=1500, MODELS="MHA SAS", DEMO=1.
"""
import hashlib
import json
import os
import subprocess

import papers
import pictures
import prompts
import statistic

NEEDED = ("arc_easy", "piqa", "openbook_qa", "siqa", "boolq", "hellaswag_1k", "lambada_openai")
ALSO = ("arc_challenge", "sciq", "winogrande")
DEMO = "the demo"
# Of width 64, 2 layers, 4 heads of 16, context 1024: attention of its own, heads of key and value, SAS.
KINDS = {
    "MHA": ({"kind": "mha"}, 4, None), "GQA": ({"kind": "gqa"}, 2, None), "MQA": ({"kind": "gqa"}, 1, None),
    "MLA": ({"kind": "mla", "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
             "v_head_dim": 16}, 4, None),
    "TPA": ({"kind": "tpa", "q_rank": 6, "rank": 2}, 4, None),
    "SAS": ({"kind": "mha"}, 4, {"heads": 12, "head_dim": 24, "kernel": 5}),
}


def config(name):
    attention, kv_heads, sas = KINDS[name]
    body = {"model_type": "noised", "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": kv_heads, "head_dim": 16, "max_position_embeddings": 1024,
            "norm": "rmsnorm", "position": "rope", "bias": False,
            "mlp": {"activation": "silu", "gated": True, "intermediate_size": 172}, "attention": attention}
    if sas:
        body["sas"] = sas
    return papers.config("zero-shot", name, body)


def ask(folder, task):
    """The task's questions in the harness's words: where they lie, and the metric that the paper shows."""
    kind = task.removesuffix("_1k")
    path = papers.place("zero-shot", "asked", f"{task}.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.write(prompts.prompts(kind, os.path.join(folder, f"{task}.jsonl")))
    return path, prompts.TASKS[kind][3]


def score(name, model, path):
    """The last line of noised-train score; kept, so that what is interrupted does not score again."""
    weights = os.stat(os.path.join(model, "model.safetensors"))
    with open(path, "rb") as f:
        wanted = [model, weights.st_mtime_ns, weights.st_size, hashlib.sha256(f.read()).hexdigest()]
    kept = papers.place("zero-shot", "scored", f"{name}.{os.path.basename(path)}")
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as f:
            of, told = json.load(f)
        if of == wanted:
            return told
    program = os.path.join(papers.BUILD, "noised-train")
    out = subprocess.run([program, "score", "--model", model, "--task", path, "--truncate"], stdout=subprocess.PIPE,
                         check=True, text=True).stdout
    told = json.loads(out.splitlines()[-1])
    with open(kept, "w", encoding="utf-8") as f:
        json.dump([wanted, told], f)
    return told


def begin(plan):
    folder = papers.data("eval", *(f"{task}.jsonl" for task in NEEDED), page="https://huggingface.co/datasets")
    asked = {task: ask(folder, task) for task in (*NEEDED, *ALSO) if os.path.exists(os.path.join(folder, f"{task}.jsonl"))}
    corpus = papers.books()
    words = papers.tokenizer("zero-shot", 512, *corpus)
    texts = [a for path in corpus for a in ("--data", path)]
    names = [*plan["MODELS"].split(), *([DEMO] if plan["DEMO"] else [])]

    def model(name, seed):
        if name == DEMO:
            return os.path.join(papers.TOP, "weights", "demo")
        return papers.train("pretrain", f"zero-shot/{name}-{seed}", "--config", config(name), *texts, "--tokenizer", words,
                            "--window", 256, "--batch", 4, "--steps", plan["STEPS"], "--warmup", plan["STEPS"] // 4, "--lr",
                            "2e-3", "--seed", seed)

    models = {(name, seed): model(name, seed) for name in names for seed in range(1, plan["SEEDS"] + 1)}

    def measure(key, seed):
        task, name = key
        path, metric = asked[task]
        told = score(f"{name}-{seed}", models[name, seed], path)
        return {"metric": metric, "score": told[metric], "stderr": told[metric + "_stderr"], "questions": told["n"],
                **{share: told[share] for share in ("chance", "majority") if share in told}}

    return [(task, name) for task in asked for name in names], measure


def shared(kept, measure, key):
    """In per cent; what LAMBADA has not is empty."""
    found = kept.values(measure, key)
    return f"{100 * found[0]:.1f}" if found else ""


def told(kept, key):
    scores = kept.values("score", key)
    error = statistic.mean(kept.values("stderr", key)) if len(scores) == 1 else statistic.deviation(scores)
    return f"{100 * statistic.mean(scores):.1f} ± {100 * error:.1f}"


def fields(kept):
    tasks, names = (list(dict.fromkeys(key[i] for key in kept.names())) for i in (0, 1))
    metrics = {row["task"]: row["metric"] for row in kept.rows}
    rows = [[task, metrics[task], int(kept.values("questions", (task, names[0]))[0]),
             shared(kept, "chance", (task, names[0])) or "0", shared(kept, "majority", (task, names[0])),
             *(told(kept, (task, name)) for name in names)] for task in tasks]
    absent = [task for task in ALSO if task not in tasks]
    return {"missing": f"{', '.join(absent)} are not asked: their files were not there. " if absent else "",
            "spread": "the standard error of the questions" if max(kept.counts()) == 1 else "the deviation of the seeds",
            "table": papers.table(["task", "score", "questions", "chance", "majority", *names], rows)}


def picture(kept):
    groups = {}
    for task, name in kept.names():
        groups.setdefault(task, {})[name] = [100 * x for x in kept.values("score", (task, name))]
    return {"zero-shot.svg": pictures.bars("Zero-shot accuracy", "%", groups)}


PAGE = """# Zero-shot questions

`{command}`, with DATA=FOLDER (SAS, Table 1).{ran}

Each continuation is scored by its log-probability behind the question (acc), or by that per character (acc_norm),
whichever the paper shows; of LAMBADA the last word must be the likeliest token by token. Questions are put in the
words of EleutherAI's lm-evaluation-harness (`scripts/papers/prompts.py`), which the paper used. {missing}The paper's
models have 350M, 760M and 1.5B parameters and 10B or 50B tokens, and SAS leads MHA by 1.58 to 2.83 points there. Ours
have width 64, two layers and {STEPS} steps on three books with one tokenizer, beside the demo's checkpoint where it is
shown; ± is {spread} ([zero-shot.csv](zero-shot.csv)). At this size all of them answer at the level of chance or give one
answer to all questions (where a score and that of the majority make 100), so **the claim cannot be told here**: what the
table shows is that the scoring is the published one, with chance and majority beside it.
/v1/completions gives the same log-probabilities bit for bit.

{table}
![Zero-shot accuracy by task and model](zero-shot.svg)
"""

experiment = papers.Experiment(
    "zero-shot", keys=["task", "network"], plan={"SEEDS": 1, "STEPS": 1500, "MODELS": " ".join(KINDS), "DEMO": 1},
    begin=begin, page=PAGE, fields=fields, pictures=picture)

if __name__ == "__main__":
    experiment.main()
