#!/usr/bin/env python3
"""Three completions each of three prompts by plain attention and by NoiseFormer (NoiseFormer, Appendices A and B).

make papers-completions. STEPS=1500.
"""
import os
import subprocess

import ablation
import papers

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
    return papers.escape("".join(c if c.isprintable() else "\ufffd" for c in text)).replace("|", "\\|")


def main():
    models = ablation.train("completions", {name.replace(" ", "-"): c for name, c in NETWORKS.items()}, seeds=1)
    rows = [[prompt if name == next(iter(NETWORKS)) and seed == 1 else "", name if seed == 1 else "",
             complete(model, prompt, seed)]
            for prompt in PROMPTS for name, (model,) in zip(NETWORKS, models.values()) for seed in (1, 2, 3)]
    papers.write("completions.md", PAGE.format(
        plan=papers.plan("STEPS", "CORPUS"), steps=ablation.STEPS,
        table=papers.table(["prompt", "network", "its completions under seeds 1, 2 and 3, the noise's too"], rows)))


PAGE = """# Completions of the paper's prompts

`make papers-completions{plan}` (NoiseFormer, Appendices A and B): 100 tokens at temperature 0.8, from all tokens. The
paper says in III-E that its samples are V1's, above them that they are V2's; here are both. Its models have 124M
parameters and OpenWebText, ours width 64, two layers and {steps} steps on three books, so that none knows what it is
asked about. Whether noise makes completions more diverse is measured in [noise](../noise.md).

{table}
"""

if __name__ == "__main__":
    main()
