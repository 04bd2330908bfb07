#!/usr/bin/env python3
"""Zero-shot questions (SAS, Table 1): the likeliest of several continuations.

make papers-zero-shot DATA=FOLDER, with FOLDER/eval holding arc_easy.jsonl, piqa.jsonl, openbook_qa.jsonl, siqa.jsonl,
boolq.jsonl, hellaswag_1k.jsonl and lambada_openai.jsonl; arc_challenge.jsonl, sciq.jsonl and winogrande.jsonl are asked
where they are. prompts.py says what their lines hold. STEPS=1500, MODELS="MHA SAS", DEMO=0.
"""
import hashlib
import json
import os
import subprocess

import papers
import prompts

STEPS = int(os.environ.get("STEPS", "1500"))
NEEDED = ("arc_easy", "piqa", "openbook_qa", "siqa", "boolq", "hellaswag_1k", "lambada_openai")
ALSO = ("arc_challenge", "sciq", "winogrande")
# Of width 64, 2 layers, 4 heads of 16, context 1024: attention of its own, heads of key and value, SAS.
KINDS = {
    "MHA": ({"kind": "mha"}, 4, None), "GQA": ({"kind": "gqa"}, 2, None), "MQA": ({"kind": "gqa"}, 1, None),
    "MLA": ({"kind": "mla", "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
             "v_head_dim": 16}, 4, None),
    "TPA": ({"kind": "tpa", "q_rank": 6, "rank": 2}, 4, None),
    "SAS": ({"kind": "mha"}, 4, {"heads": 12, "head_dim": 24, "kernel": 5}),
}
MODELS = os.environ.get("MODELS", " ".join(KINDS)).split()


def config(name):
    attention, kv_heads, sas = KINDS[name]
    body = {"model_type": "noised", "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": kv_heads, "head_dim": 16, "max_position_embeddings": 1024,
            "norm": "rmsnorm", "position": "rope", "bias": False,
            "mlp": {"activation": "silu", "gated": True, "intermediate_size": 172}, "attention": attention}
    if sas:
        body["sas"] = sas
    path = os.path.join(papers.RUNS, "zero-shot", f"{name}.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(body, f)
    return path


def ask(folder, task):
    """The task's questions in the harness's words: where they lie, and the metric that the paper shows."""
    kind = task.removesuffix("_1k")
    path = os.path.join(papers.RUNS, "zero-shot", "asked", f"{task}.jsonl")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(prompts.prompts(kind, os.path.join(folder, f"{task}.jsonl")))
    return path, prompts.TASKS[kind][3]


def score(name, model, path):
    """The last line of noised-train score; kept, so that what is interrupted does not score again."""
    weights = os.stat(os.path.join(model, "model.safetensors"))
    with open(path, "rb") as f:
        wanted = [model, weights.st_mtime_ns, weights.st_size, hashlib.sha256(f.read()).hexdigest()]
    kept = os.path.join(papers.RUNS, "zero-shot", f"{name}.{os.path.basename(path)}")
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


def main():
    folder = papers.data("eval", *(f"{task}.jsonl" for task in NEEDED), page="https://huggingface.co/datasets")
    absent = [task for task in ALSO if not os.path.exists(os.path.join(folder, f"{task}.jsonl"))]
    corpus = [a for path in papers.books() for a in ("--data", path)]
    models, tokenizer = {}, []
    for name in MODELS:
        models[name] = papers.train("pretrain", f"zero-shot/{name}", "--config", config(name), *corpus, *tokenizer,
                                    "--window", 256, "--batch", 4, "--steps", STEPS, "--warmup", STEPS // 4, "--lr", "2e-3", "--seed", 1)
        tokenizer = ["--tokenizer", os.path.join(papers.RUNS, "zero-shot", MODELS[0], "tokenizer.json")]
    if os.environ.get("DEMO", "1") == "1":
        models["the demo"] = os.path.join(papers.TOP, "weights", "demo")
    rows, groups, scores, errors = [], {}, {}, {}
    for task in [*NEEDED, *(t for t in ALSO if t not in absent)]:
        path, key = ask(folder, task)
        told = {name: score(name, model, path) for name, model in models.items()}
        any_one = next(iter(told.values()))
        rows.append([task, key, any_one["n"], f"{100 * any_one['chance']:.1f}" if "chance" in any_one else "0",
                     f"{100 * any_one['majority']:.1f}" if "majority" in any_one else "",
                     *(f"{100 * t[key]:.1f} ± {100 * t[key + '_stderr']:.1f}" for t in told.values())])
        groups[task] = {name: [100 * t[key]] for name, t in told.items()}
        scores |= {(task, name): [t[key]] for name, t in told.items()}
        errors |= {(task, name): [t[key + "_stderr"]] for name, t in told.items()}
    papers.keep("zero-shot", ["task", "network"], score=scores, stderr=errors)
    papers.write("zero-shot.svg", papers.bars("Zero-shot accuracy", "%", groups))
    missing = f"{', '.join(absent)} are not asked: their files were not there. " if absent else ""
    papers.write("zero-shot.md", PAGE.format(plan=papers.plan("STEPS", "MODELS", "DEMO"), steps=STEPS, missing=missing, table=papers.table(
        ["task", "score", "questions", "chance", "majority", *models], rows)))


PAGE = """# Zero-shot questions

`make papers-zero-shot DATA=FOLDER{plan}` (SAS, Table 1).

Each continuation is scored by its log-probability behind the question (acc), or by that per character (acc_norm),
whichever the paper shows; of LAMBADA the last word must be the likeliest token by token. Questions are put in the
words of EleutherAI's lm-evaluation-harness (`scripts/papers/prompts.py`), which the paper used. {missing}The paper's
models have 350M, 760M and 1.5B parameters and 10B or 50B tokens, and SAS leads MHA by 1.58 to 2.83 points there. Ours
have width 64, two layers and {steps} steps on three books with one tokenizer, beside the demo's checkpoint where it is
shown; ± is the standard error of the questions ([zero-shot.csv](zero-shot.csv)). At this size all of them answer at the level of chance or give one answer
to all questions (where a score and that of the majority make 100), so **the claim cannot be told here**: what the table shows is that the scoring is the published one, with chance and majority beside
it. /v1/completions gives the same log-probabilities bit for bit.

{table}
![Zero-shot accuracy by task and model](zero-shot.svg)
"""

if __name__ == "__main__":
    main()
