#!/usr/bin/env python3
"""SAS by heads, windows, sizes, parts, kernels, hosts and positions (SAS, Figures 1 to 6, Appendices E, G, H and J).

make papers-sas. SEEDS=3, STEPS=1500, FIGURES="heads windows sizes parts kernels hosts positions".
"""
import math

import ablation
import papers

HOSTS = {"mqa": {"attention": {"kind": "gqa"}, "num_key_value_heads": 1},
         "gqa": {"attention": {"kind": "gqa"}, "num_key_value_heads": 2},
         "mla": {"attention": {"kind": "mla", "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
                               "qk_rope_head_dim": 8, "v_head_dim": 16}},
         "tpa": {"attention": {"kind": "tpa", "q_rank": 6, "rank": 2}}}

ROPE = {"mla": "pre", "tpa": "pre"}  # they turn a part, or do not turn last


def sas(heads=12, head_dim=24, kernel=5, rope="post", **more):
    return {"sas": {"heads": heads, "head_dim": head_dim, "kernel": kernel, "rope": rope, **more}}


def nats(perplexity, other):
    return math.log(perplexity / other)


NETWORKS = {
    "mha": ablation.network(), "sas": ablation.network(**sas()),
    **{f"mha-{heads}-heads": ablation.network(heads=heads) for heads in (1, 2, 8, 16, 32)},
    **{f"mha-window-{w}": ablation.network(window=w) for w in (64, 256)},
    **{f"sas-window-{w}": ablation.network(window=w, **sas()) for w in (64, 256)},
    **{f"mha-width-{w}": ablation.network(w) for w in (32, 128)},
    **{f"sas-width-{w}": ablation.network(w, **sas(3 * w // 16)) for w in (32, 128)},
    "sas-heads-only": ablation.network(**sas(head_dim=16)),
    "sas-features-only": ablation.network(**sas(heads=4, kernel=0)),
    "sas-4-heads-only": ablation.network(**sas(heads=4, head_dim=16)),
    "sas-4-heads": ablation.network(**sas(heads=4)),
    "sas-no-relu": ablation.network(**sas(activation="none")),
    **{f"sas-kernel-{k}": ablation.network(**sas(kernel=k)) for k in (1, 3, 7)},
    **{name: ablation.network(**host) for name, host in HOSTS.items()},
    **{f"{name}-sas": ablation.network(**host, **sas(8, 36 if name == "mla" else 24, 1, ROPE.get(name, "post")))
       for name, host in HOSTS.items()},
    "sas-rope-before": ablation.network(**sas(rope="pre")),
    "mha-learned": ablation.network(position="learned"), "sas-learned": ablation.network(position="learned", **sas(rope="pre")),
}
# Where the paper has the numbers, a, b, and the difference of its perplexities' logarithms or its word.
GROUPS = {
    "heads": [("Figure 1", "mha-1-heads", "mha", nats(6.08, 5.82)),
              *(("Figure 1", f"mha-{heads}-heads", "mha", "above") for heads in (2, 8, 16, 32))],
    "windows": [("Figure 2, 512", "sas-window-64", "mha-window-64", nats(28.37, 29.80)),
                ("Figure 2, 1,024", "sas", "mha", nats(22.14, 23.67)),
                ("Figure 3, 2,048", "sas-window-256", "mha-window-256", nats(18.34, 19.72))],
    "sizes": [("Appendix J, 125M", "sas-width-32", "mha-width-32", nats(28.3746, 29.8049)),
              ("Figure 4, 350M", "sas", "mha", nats(24.91, 26.05)),
              ("Figure 4, 2.7B", "sas-width-128", "mha-width-128", nats(21.62, 22.18))],
    "parts": [("Figure 5", "sas-heads-only", "sas", nats(22.43, 22.14)),
              ("Figure 5", "sas-features-only", "sas", nats(22.79, 22.14)),
              ("Figure 5", "sas-4-heads-only", "mha", nats(23.17, 23.67)),
              ("Figure 6", "sas-no-relu", "sas", nats(22.43, 22.14)),
              ("Figure 6", "sas-4-heads", "mha", nats(22.96, 23.67)),
              ("Figure 6", "sas-4-heads", "sas", nats(22.96, 22.14))],
    "kernels": [("Appendix E", "sas-kernel-1", "mha", nats(22.50, 23.67)),
                ("Appendix E", "sas-kernel-3", "sas-kernel-1", "below"), ("Appendix E", "sas", "sas-kernel-3", "below"),
                ("Appendix E", "sas-kernel-7", "sas", "comparable")],
    "hosts": [("Appendix J", "mqa-sas", "mqa", nats(29.0052, 30.1535)),
              ("Appendix J", "gqa-sas", "gqa", nats(28.7853, 29.8059)),
              ("Appendix J", "mla-sas", "mla", nats(29.3722, 30.1669)),
              ("Appendix J", "tpa-sas", "tpa", nats(28.7323, 30.3846))],
    "positions": [("Figure 2, 1,024", "sas", "mha", nats(22.14, 23.67)),
                  ("the same", "sas-rope-before", "mha", nats(22.14, 23.67)),
                  ("the same", "sas-learned", "mha-learned", nats(22.14, 23.67)),
                  ("not told", "sas-rope-before", "sas", "")],
}
SHOWN = ["mha", "sas", "sas-heads-only", "sas-features-only", "sas-no-relu", "sas-rope-before", "mha-1-heads"]


def begin(plan):
    train = ablation.trainer("sas", plan, NETWORKS)
    return ablation.networks_of(ablation.chosen(GROUPS, plan)), lambda name, seed: ablation.losses(train(name, seed))


def fields(kept):
    return {"table": ablation.compared(ablation.chosen(GROUPS, kept.plan), kept), "losses": ablation.told(kept)}


def picture(kept):
    shown = [name for name in SHOWN if name in kept.names()]
    return {"sas.svg": ablation.picture(kept, shown or kept.names())}


PAGE = """# Simulated attention scores, figure by figure

`{command}` (SAS, Figures 1 to 6, Appendices E, G, H and J).{ran} The paper trains 125M to 10.6B parameters on
Books3 and ArXiv for 50,000 steps; ours, unless a name says otherwise, have width 64, two layers, four heads of 16 and
windows of 128, {STEPS} steps of 1,024 tokens of three books. `sas` has three times the heads, one and a half times their
size, a kernel of 5; on other hosts, as in Appendix J, twice the heads and a kernel of 1. `sas-features-only` has the
host's heads: the paper's FeatureOnly has 36, and does not say from where. Nor is it told how the networks know positions:
ours map queries and keys and then turn them (RoPE; on MLA and TPA the other way round), `sas-rope-before` maps what is turned, `-learned` adds positions to
the tokens. Differences are of validation losses in nats, the paper's of the logarithms of its perplexities; pairs have
the same seed ([sas.csv](sas.csv)).

{table}
{losses}
![Validation loss by step](sas.svg)
"""

experiment = papers.Experiment(
    "sas", keys=["network"], plan={"SEEDS": 3, "STEPS": 1500, "FIGURES": " ".join(GROUPS)}, begin=begin, page=PAGE,
    fields=fields, pictures=picture)

if __name__ == "__main__":
    experiment.main()
