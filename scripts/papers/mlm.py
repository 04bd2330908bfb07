#!/usr/bin/env python3
"""Masked language models with NOBLE's branches (003, Table 2).

make papers-mlm. SEEDS=3, STEPS=1500.
"""
import os

import papers

STEPS = int(os.environ.get("STEPS", "1500"))
EVERY = max(STEPS // 20, 1)


def main():
    corpus = [a for path in papers.books() for a in ("--data", path)]
    losses, curves, tokenizer = {}, {}, []
    for name, preset in (("plain", "mlm-nano"), ("NOBLE", "mlm-noble-nano")):
        runs = []
        for seed in range(1, papers.SEEDS + 1):
            path = papers.train("pretrain", f"mlm/{name}-{seed}", "--config", preset, *corpus, *tokenizer,
                                "--steps", STEPS, "--warmup", max(STEPS // 100, 1), "--schedule", "linear",
                                "--weight-decay", 0.01, "--lr", "2e-3", "--eval-every", EVERY, "--seed", seed)
            tokenizer = ["--tokenizer", os.path.join(papers.RUNS, "mlm", "plain-1", "tokenizer.json")]
            runs.append(papers.evaluations(path))
        curves[name] = runs
        losses[name] = [run[-1] for run in runs]
    d, half = papers.difference(losses["NOBLE"], losses["plain"])
    faster = [papers.times_fewer(noble, plain) for plain, noble in zip(curves["plain"], curves["NOBLE"])]
    rows = [[name, paper, papers.told(losses[name], 4)]
            for name, paper in (("plain", "1.414"), ("NOBLE", "1.393 / 1.371 / 1.351 (rank 64 / 128 / 256)"))]
    told = ", ".join("never" if f != f else f"{f:.2f}" for f in faster)
    claims = [["loss, NOBLE − plain", "−0.021 to −0.063", f"{d:+.4f} ± {half:.4f}",
               papers.verdict(-0.021, losses["NOBLE"], losses["plain"])],
              ["times fewer steps to plain's last loss", "1.10 / 1.17 / 1.26", told, "see the runs"]]
    papers.keep("mlm", ["network"], loss=losses)
    papers.write("mlm.svg", papers.curves("Loss of masked tokens, held-out text", f"evaluation (every {EVERY} steps)",
                                          "nats", curves))
    papers.write("mlm.md", PAGE.format(plan=papers.plan("SEEDS", "STEPS"), steps=STEPS, seeds=papers.SEEDS, table=papers.table(
        ["network", "paper", "loss of masked tokens"], rows), claims=papers.table(
            ["claim", "paper", "ours", "verdict"], claims)))


PAGE = """# Masked language models with NOBLE's branches

`make papers-mlm{plan}` (003, Table 2). 15% of the tokens are chosen, 80% of those become `<mask>`, 10% any token,
10% stay; the loss is of the chosen. The paper trains 110M parameters (depth 12, width 768) on OpenWebText; ours are
`mlm-nano` and `mlm-noble-nano`, {steps} steps on three books. Evaluation masks are fixed; mean ± deviation over {seeds}
seeds, each of which is in [mlm.csv](mlm.csv).

{table}
{claims}
![Loss by step](mlm.svg)
"""

if __name__ == "__main__":
    main()
