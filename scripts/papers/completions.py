#!/usr/bin/env python3
"""Three completions each of three prompts by plain attention and by NoiseFormer (NoiseFormer, Appendices A and B).

make papers-completions. SEEDS=3, STEPS=1500.
"""
import os
import subprocess

import ablation
import papers
import pictures

PROMPTS = ["What is the answer to life, the universe, and everything?",
           "The effect of COVID on humanity and it being RNA virus",
           "Keats poetry is unique and describe in his way about rings of Saturn"]
SYMMETRIC = {"attention": {"kind": "symmetric"}}
NETWORKS = {"plain attention": ablation.network(window=256),
            "NoiseFormer V1": ablation.network(window=256, **SYMMETRIC, noise={"scope": "layer"}),
            "NoiseFormer V2": ablation.network(window=256, **SYMMETRIC, noise={"scope": "head"})}


def complete(model, prompt, seed):
    program = os.path.join(papers.BUILD, "noised-train")
    out = subprocess.run([program, "sample", "--model", model, "--prompt", prompt, "--max-tokens", "100",
                          "--temperature", "0.8", "--top-k", "0", "--seed", str(seed), "--noise-seed", str(seed)],
                         stdout=subprocess.PIPE, check=True).stdout
    text = " ".join(out.decode(errors="replace").removeprefix(prompt).split())
    return pictures.escape("".join(c if c.isprintable() else "\ufffd" for c in text)).replace("|", "\\|")


def begin(plan):
    train = ablation.trainer("completions", plan, {name.replace(" ", "-"): c for name, c in NETWORKS.items()})
    models = {name: train(name.replace(" ", "-"), 1) for name in NETWORKS}

    def measure(key, seed):
        prompt, name = key
        return {"text": complete(models[name], prompt, seed)}

    return [(prompt, name) for prompt in PROMPTS for name in NETWORKS], measure


def fields(kept):
    rows = [[row["prompt"] if row["network"] == next(iter(NETWORKS)) and row["seed"] == "1" else "",
             row["network"] if row["seed"] == "1" else "", row["text"]] for row in kept.rows]
    return {"table": papers.table(["prompt", "network", "its completions under seeds 1, 2 and 3, the noise's too"], rows)}


PAGE = """# Completions of the paper's prompts

`{command}` (NoiseFormer, Appendices A and B).{ran} 100 tokens at temperature 0.8, from all tokens. The
paper says in III-E that its samples are V1's, above them that they are V2's; here are both. Its models have 124M
parameters and OpenWebText, ours width 64, two layers and {STEPS} steps on three books, so that none knows what it is
asked about. Whether noise makes completions more diverse is measured in [noise](../noise.md).

{table}
"""

experiment = papers.Experiment("completions", keys=["prompt", "network"], plan={"SEEDS": 3, "STEPS": 1500}, begin=begin,
                               page=PAGE, fields=fields)

if __name__ == "__main__":
    experiment.main()
