#!/usr/bin/python3
"""Writes the golden cases tests/golden/<case>/ that the C code is compared with. Deterministic; run again at will.

    make_golden.py [--only NAME]... [--out DIR] [--list]        (--only takes a case name or a prefix ending in *)

Each case holds
    config.json, model.safetensors   a tiny checkpoint (F32) in which nothing has a special value
    tokens.json                      the batch and every setting of the run (fields below)
    expected.safetensors             what the oracle computed in float64, stored as F32:
        logits [B*T, V]       of inputs tokens[:, :-1] with the noise of tokens.json
        loss, ce, kl [1]      loss = ce + alpha * kl for the targets tokens[:, 1:]
        logits_stream0        inference: stream 0, the same noise for every row
        logits_scale0         stream 0 and noise_scale 0
        grad.<name>           d loss / d parameter, before clipping, every parameter
        losses [steps]        loss before each AdamW step; step s draws its noise from stream 1 + s
        after.<name>          every parameter after the steps
Where |grad| < 1e-10 the true gradient is zero (a key's bias: softmax cancels what is constant along a row), but a
float32 run sees rounding noise, which Adam normalises to a step of up to lr: compare `after` there within steps * lr.
`float32_deviation` is the largest difference between this oracle in float32 and in float64, those elements left out:
the scale for tolerances.
"""
import argparse
import copy
import fnmatch
import json
import math
import os
import sys
import zlib

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import oracle  # noqa: E402

STEPS, B, T = 10, 2, 10  # T + 1 tokens a row; T crosses the eight-key block of the noise

BASE = {
    "model_type": "noised", "vocab_size": 19, "hidden_size": 10, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 12, "norm": "layernorm", "norm_eps": 1e-5,
    "position": "learned", "rope_theta": 10000.0, "bias": False, "tie_word_embeddings": True,
    "mlp": {"activation": "gelu", "gated": False, "intermediate_size": 12},
    "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "float32",
}
LLAMA = {"norm": "rmsnorm", "position": "rope", "mlp": {"activation": "silu", "gated": True, "intermediate_size": 8}}
GPT2 = {"bias": True}

# What each kind's cases look like: the host model follows the paper that brought the kind.
KIND = {
    "mha": {**GPT2, "attention": {"kind": "mha"}},
    "symmetric": {"attention": {"kind": "symmetric"}},
    "pairwise": {**GPT2, "attention": {"kind": "pairwise"}},
    "gqa": {**LLAMA, "num_attention_heads": 4, "num_key_value_heads": 2, "attention": {"kind": "gqa"}},
    "mqa": {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 1, "attention": {"kind": "gqa"}},
    "mla": {**LLAMA, "attention": {"kind": "mla", "q_lora_rank": 6, "kv_lora_rank": 5, "qk_nope_head_dim": 4,
                                   "qk_rope_head_dim": 2, "v_head_dim": 6}},
    "tpa": {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 3,
            "attention": {"kind": "tpa", "q_rank": 3, "rank": 2}},
    "differential": {**LLAMA, "attention": {"kind": "differential"}},
    "lecture": {"head_dim": 10, "position": "none", "attention": {"kind": "lecture"}},
}
NOISE = {"scope": "head", "density": "gaussian"}
NOBLE = {"rank": 3, "activation": "cosnet", "layers": 2}


def sas(kind, **changes):
    heads = KIND[kind].get("num_attention_heads", 2)
    groups = 2 if heads > 2 else 3
    maps = 2 * heads if kind == "differential" else heads
    return {"heads": groups * maps, "head_dim": 8 if kind == "mla" else 6, "kernel": 3, "activation": "relu",
            "rope": "pre", **changes}


def cases():
    """-> {name: (config, changes to the settings of tokens.json)}"""
    out = {}

    def add(name, kind, settings=None, layers=2, **changes):
        changes["num_hidden_layers"] = layers
        config = copy.deepcopy({**BASE, **KIND[kind], **changes})
        mlp = changes.get("mlp")
        if mlp:
            config["mlp"] = {**BASE["mlp"], **mlp}
        assert name not in out, name
        out[name] = (config, settings or {})

    for kind in KIND:
        add(f"{kind}_plain", kind)
        add(f"{kind}_noise", kind, noise=NOISE, layers=2 if kind in ("symmetric", "mha") else 1)
        add(f"{kind}_sas", kind, sas=sas(kind), layers=1)
        add(f"{kind}_noble", kind, noble=NOBLE, layers=1)
        add(f"{kind}_all", kind, noise=NOISE, sas=sas(kind), noble=NOBLE, layers=2 if kind == "symmetric" else 1)
    # noise
    mixture = {"density": "mixture", "components": 3}
    conditioned = {"density": "gaussian", "conditioned": True, "condition_dim": 5}
    for scope in ("layer", "head"):
        if scope == "layer":
            add("symmetric_noise_layer", "symmetric", noise={**NOISE, "scope": scope})
        add(f"symmetric_mixture_{scope}", "symmetric", noise={**mixture, "scope": scope})
        add(f"symmetric_conditioned_{scope}", "symmetric", noise={**conditioned, "scope": scope})
    rows = {"noise_per_sequence": True}
    add("symmetric_noise_per_sequence", "symmetric", rows, noise=NOISE)
    add("mha_mixture_per_sequence", "mha", rows, noise={**mixture, "scope": "head"})
    add("gqa_sas_mixture_head", "gqa", noise={**mixture, "scope": "head"}, sas=sas("gqa"), layers=1)
    add("mla_sas_conditioned_head", "mla", noise={**conditioned, "scope": "head"}, sas=sas("mla"), layers=1)
    add("tpa_noise_layer", "tpa", noise={**NOISE, "scope": "layer"}, layers=1)
    add("symmetric_noise_scale_half", "symmetric", {"noise_scale": 0.5}, noise=NOISE)
    # spans
    for span in ("key", "sequence"):
        for scope in ("layer", "head"):
            add(f"symmetric_noise_{span}_{scope}", "symmetric", noise={**NOISE, "scope": scope, "span": span})
        add(f"gqa_noise_{span}_per_sequence", "gqa", rows, noise={**NOISE, "span": span}, layers=1)
        add(f"mla_noise_{span}", "mla", noise={**NOISE, "span": span}, layers=1)
        add(f"symmetric_sas_noise_{span}", "symmetric", noise={**NOISE, "span": span}, sas=sas("symmetric"), layers=1)
    add("symmetric_mixture_key", "symmetric", noise={**mixture, "scope": "head", "span": "key"}, layers=1)
    add("symmetric_conditioned_key", "symmetric", noise={**conditioned, "scope": "head", "span": "key"}, layers=1)
    add("pairwise_noise_sequence", "pairwise", noise={**NOISE, "span": "sequence"}, layers=1)
    add("differential_noise_sequence", "differential", noise={**NOISE, "span": "sequence"}, layers=1)
    # one component of a mixture for a sequence
    code = {**mixture, "span": "sequence"}
    residual = {**code, "scope": "layer", "site": "residual"}
    for scope in ("layer", "head"):
        add(f"symmetric_code_{scope}", "symmetric", noise={**code, "scope": scope})
    add("gqa_code_per_sequence", "gqa", rows, noise={**code, "scope": "head"}, layers=1)
    add("symmetric_sas_code", "symmetric", {"noise_scale": 0.5}, noise={**code, "scope": "head"}, sas=sas("symmetric"), layers=1)
    add("symmetric_code_residual", "symmetric", noise=residual)
    add("mha_code_residual_per_sequence", "mha", {**rows, "noise_scale": 0.5}, noise=residual)
    # positions, norms, biases, mlp, head
    add("mha_rope", "mha", position="rope")
    add("mha_none", "mha", position="none")
    add("symmetric_rope", "symmetric", position="rope", bias=True)
    add("pairwise_rope", "pairwise", position="rope", layers=1)
    add("gqa_learned", "gqa", position="learned", bias=True, layers=1)
    add("mla_learned_bias", "mla", position="learned", bias=True, layers=1)
    add("tpa_none_bias", "tpa", position="none", bias=True, norm="layernorm", layers=1)
    add("mha_theta", "mha", position="rope", rope_theta=500.0, bias=False, layers=1)
    add("mha_nobias", "mha", bias=False, layers=1)
    add("mha_rmsnorm_bias", "mha", norm="rmsnorm", norm_eps=1e-3)
    add("mha_untied", "mha", tie_word_embeddings=False, bias=False, layers=1)
    add("gqa_untied_bias", "gqa", tie_word_embeddings=False, bias=True, layers=1)
    add("mha_relu", "mha", mlp={"activation": "relu"}, layers=1)
    add("mha_silu", "mha", mlp={"activation": "silu"}, layers=1)
    add("mha_gelu_tanh", "mha", mlp={"activation": "gelu_tanh"}, layers=1)
    add("gqa_geglu", "gqa", mlp={"activation": "gelu", "gated": True, "intermediate_size": 8}, layers=1)
    add("gqa_reglu_bias", "gqa", bias=True, mlp={"activation": "relu", "gated": True, "intermediate_size": 8}, layers=1)
    add("gqa_gelu_tanh_gated", "gqa", mlp={"activation": "gelu_tanh", "gated": True, "intermediate_size": 8}, layers=1)
    # sas
    add("mha_sas_head_only", "mha", sas=sas("mha", head_dim=4), layers=1)
    add("mha_sas_feature_only", "mha", sas=sas("mha", heads=2, kernel=0), layers=1)
    add("mha_sas_equal_heads", "mha", sas=sas("mha", heads=2, head_dim=4, kernel=1), layers=1)
    add("mha_sas_same_heads", "mha", sas=sas("mha", heads=2, kernel=3), layers=1)
    add("mha_sas_linear", "mha", sas=sas("mha", activation="none"), layers=1)
    for kernel in (1, 5, 7):
        add(f"mha_sas_kernel{kernel}", "mha", sas=sas("mha", kernel=kernel), layers=1)
    add("mha_sas_rope_pre", "mha", position="rope", sas=sas("mha"), layers=1)
    for kind in ("mha", "symmetric", "gqa"):
        add(f"{kind}_sas_rope_post", kind, position="rope", sas=sas(kind, rope="post"), layers=1)
    add("symmetric_sas_noise_layer", "symmetric", noise={**NOISE, "scope": "layer"}, sas=sas("symmetric"), layers=1)
    # whole sequences: no mask
    add("lecture_notes", "lecture", causal=False)
    add("mha_bidirectional", "mha", causal=False, layers=1)
    add("symmetric_bidirectional_noise", "symmetric", causal=False, noise=NOISE)
    # differential attention
    add("differential_learned_bias", "differential", position="learned", bias=True, norm="layernorm")
    add("differential_sas_rope_post", "differential", sas=sas("differential", rope="post"), layers=1)
    add("differential_noise_layer", "differential", noise={**NOISE, "scope": "layer"}, layers=1)
    add("differential_conditioned_head", "differential", noise={**conditioned, "scope": "head"}, layers=1)
    # noble
    add("mha_noble_cosnet1", "mha", noble={**NOBLE, "layers": 1}, layers=1)
    add("mha_noble_cosnet3", "mha", noble={**NOBLE, "layers": 3}, layers=1)
    for activation in ("tanh", "gelu", "leaky_relu", "relu"):
        for layers in (1, 2):
            noble = {**NOBLE, "activation": activation, "layers": layers}
            add(f"mha_noble_{activation}{layers}", "mha", noble=noble, layers=1)
    return out


def initial(cfg, rng):
    """Every tensor away from its special values: gains off 1, biases off 0, sigma of either sign near 0.3, ..."""
    P = {}
    for name, shape in oracle.param_shapes(cfg).items():
        z = rng.standard_normal(shape)
        leaf = name.rsplit(".", 1)[-1]
        fan_in = math.prod(shape[1:])
        if "condition.up" in name:  # outputs: n means, then n log variances around 2 ln 0.3
            n = shape[0] // 2
            t = 0.3 * z / math.sqrt(fan_in) if leaf == "weight" else 0.3 * z + np.repeat([0.0, -2.4], n)
        elif ".noise." in name and "condition" not in name:
            t = np.sign(z) * (0.2 + 0.1 * np.abs(z)) if leaf == "sigma" else 0.5 * z if leaf == "weight" else 0.3 * z
        elif "norm" in name:
            t = 0.2 * z + (leaf == "weight")
        elif leaf.startswith("lambda"):
            t = 0.4 * z
        elif leaf == "bias" or leaf.startswith("phase"):
            t = 0.2 * z
        elif leaf.startswith("freq"):
            t = rng.uniform(0.8, 1.2, shape)
        elif "noble.up" in name:
            t = 0.1 * z
        elif "embed" in name:
            t = 0.4 * z
        elif "pair" in name:
            t = z / math.sqrt(shape[1])
        else:
            t = z / math.sqrt(fan_in)
        P[name] = torch.from_numpy(np.asarray(t, dtype=np.float32))
    return P


def build(name, config, changes):
    cfg = oracle.Config(config)
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    P = initial(cfg, rng)
    batch = torch.from_numpy(rng.randint(0, cfg.vocab, (B, T + 1)))
    settings = {
        "tokens": batch.tolist(), "noise_seed": int(rng.randint(1, 2**53)), "noise_scale": 1.0, "noise_stream": 1,
        "noise_per_sequence": False, "alpha": 1e-3, "steps": STEPS, "lr": 3e-3, "warmup": 3, "weight_decay": 0.1,
        "betas": [0.9, 0.95], "eps": 1e-8, "clip": 1.0, **changes,
    }
    seed, scale, rows = (settings[k] for k in ("noise_seed", "noise_scale", "noise_per_sequence"))
    results = []
    for dtype in (torch.float64, torch.float32):
        W = {n: t.to(dtype) for n, t in P.items()}
        draw = oracle.Draw(seed, scale, settings["noise_stream"], rows)
        total, ce, logits, grads = oracle.gradients(cfg, W, batch, draw, settings["alpha"])
        with torch.no_grad():
            stream0, scale0 = (oracle.forward(cfg, W, batch[:, :-1], oracle.Draw(seed, s)) for s in (scale, 0.0))
        after, losses = oracle.train(
            cfg, W, batch, STEPS, seed, scale, rows, *(settings[k] for k in ("alpha", "lr", "warmup")),
            **{k: settings[k] for k in ("weight_decay", "betas", "eps", "clip")})
        expected = {
            "logits": logits.reshape(B * T, -1), "loss": total.reshape(1), "ce": ce.reshape(1),
            "kl": ((total - ce) / settings["alpha"]).reshape(1), "losses": torch.tensor(losses),
            "logits_stream0": stream0.reshape(B * T, -1), "logits_scale0": scale0.reshape(B * T, -1),
            **{"grad." + n: g for n, g in grads.items()}, **{"after." + n: t for n, t in after.items()},
        }
        results.append(expected)
    expected, single = results
    deviation = {}
    for n, t in expected.items():
        group, _, parameter = n.partition(".")
        difference = (t.double() - single[n].double()).abs()
        if group == "after":
            difference[expected["grad." + parameter].abs() < 1e-10] = 0
        deviation[group] = max(deviation.get(group, 0.0), float(difference.max()))
    settings["float32_deviation"] = {g: float(f"{x:.1e}") for g, x in deviation.items()}
    assert losses[-1] < losses[0] and all(map(math.isfinite, losses)), (name, losses)
    return P, settings, expected


def main():
    parser = argparse.ArgumentParser(description="golden cases for the C implementation")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--out", default=os.path.join(here, "..", "golden"))
    parser.add_argument("--only", action="append", metavar="NAME", help="case name or pattern; may be repeated")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, (config, changes) in cases().items():
        if args.only and not any(fnmatch.fnmatch(name, pattern) for pattern in args.only):
            continue
        if args.list:
            print(name)
            continue
        P, settings, expected = build(name, config, changes)
        directory = os.path.join(args.out, name)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.json"), "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        with open(os.path.join(directory, "tokens.json"), "w") as f:
            fields = ",\n".join(f' "{k}": {json.dumps(v)}' for k, v in settings.items())
            f.write("{\n" + fields + "\n}\n")
        oracle.write_safetensors(os.path.join(directory, "model.safetensors"), P, {"program": "oracle", "step": "0"})
        oracle.write_safetensors(os.path.join(directory, "expected.safetensors"), expected)
        size = sum(os.path.getsize(os.path.join(directory, f)) for f in os.listdir(directory))
        deviation = " ".join(f"{g} {settings['float32_deviation'][g]:.0e}" for g in ("logits", "grad", "after"))
        losses = expected["losses"]
        print(f"{name:32} {size / 1024:5.1f} KB  loss {losses[0]:.4f} -> {losses[-1]:.4f}  f32 {deviation}", flush=True)


if __name__ == "__main__":
    main()
