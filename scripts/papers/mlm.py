#!/usr/bin/env python3
"""Masked language models with NOBLE's branches (NOBLE, Table 2).

make papers-mlm. SEEDS=5, STEPS=4000.
"""
import ablation
import branches
import papers
import pictures
import statistic

HOST = {**ablation.network(window=64), "task": "fill-mask", "mask_token_id": 511, "causal": False,
        "mlp": {"activation": "gelu", "gated": True, "intermediate_size": 192}}
NETWORKS = branches.arms(HOST, 8)
PAPER = {"kaiming": "1.414", "NOBLE": "1.393 / 1.371 / 1.351 (rank 64 / 128 / 256)"}


def begin(plan):
    corpus = papers.books()
    words = papers.tokenizer("mlm", 511, *corpus)
    texts = [a for path in corpus for a in ("--data", path)]

    def measure(name, seed):
        return ablation.losses(papers.train(
            "pretrain", f"mlm/{name}-{seed}", "--config", papers.config("mlm", name, NETWORKS[name]), *texts,
            "--tokenizer", words, "--steps", plan["STEPS"], "--warmup", max(plan["STEPS"] // 100, 1), "--schedule",
            "linear", "--weight-decay", 0.01, "--lr", "2e-3", "--eval-every", ablation.every(plan), "--seed", seed))

    return list(NETWORKS), measure


def fewer(kept):
    """For every seed how many times fewer steps NOBLE needs to kaiming's last loss."""
    pairs = zip(kept.curves("NOBLE"), kept.curves("kaiming"))
    return ", ".join("never" if f != f else f"{f:.2f}" for f in (statistic.times_fewer(a, b) for a, b in pairs))


def fields(kept):
    rows = [[name, PAPER.get(name, ""), len(kept.values("loss", name)), statistic.told(kept.values("loss", name), 4)]
            for name in NETWORKS]
    claims = [*branches.claims(kept, "loss", "loss", -0.021, "−0.021 to −0.063"),
              ["times fewer steps to kaiming's last loss", "1.10 / 1.17 / 1.26", fewer(kept), "", "see the seeds"]]
    return {"hosts": branches.WORDS, "claims": branches.table(claims),
            "table": papers.table(["network", "paper", "seeds", "loss of masked tokens"], rows)}


PAGE = """# Masked language models with NOBLE's branches

`{command}` (NOBLE, Table 2).{ran} 15% of the tokens are chosen, 80% of those become `<mask>`, 10% any token,
10% stay; the loss is of the chosen. The paper trains 110M parameters (depth 12, width 768) on OpenWebText; ours have width
64 and two layers, NOBLE of rank 8, {STEPS} steps on three books. {hosts} Evaluation masks are fixed; mean ± deviation
over the seeds, each of which is in [mlm.csv](mlm.csv).

{table}
{claims}
![Loss by step](mlm.svg)
"""

experiment = papers.Experiment(
    "mlm", keys=["network"], plan={"SEEDS": 5, "STEPS": 4000}, begin=begin, page=PAGE, fields=fields,
    pictures=lambda kept: {"mlm.svg": pictures.curves(
        "Loss of masked tokens, held-out text", f"evaluation (every {ablation.every(kept.plan)} steps)", "nats",
        {name: kept.curves(name) for name in kept.names()})})

if __name__ == "__main__":
    experiment.main()
