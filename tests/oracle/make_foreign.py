#!/usr/bin/python3
"""Writes tests/golden_foreign/<name>/: tiny folders as Hugging Face's transformers saves them, of the architectures that
we read, with the logits of a float64 forward pass. Deterministic; run again at will.

    make_foreign.py [--out DIR]

Each folder holds config.json and model.safetensors (their keys, their names, F32), tokens.json (two sequences) and
expected.safetensors: logits [2 * T, V].

The forward pass follows transformers' modeling_llama.py, modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py and
modeling_rope_utils.py, and shares no line with our own oracle."""
import argparse
import json
import math
import os
import struct
import zlib

import numpy as np
import torch

T = 40

BASE = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "bos_token_id": 1,
        "eos_token_id": 2, "torch_dtype": "float32"}

FOLDERS = {
    "llama3": {"model_type": "llama", "rope_theta": 500.0, "tie_word_embeddings": True, "head_dim": 8,
               "eos_token_id": [2, 5],
               "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 16}},
    "llama_linear": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4.0}},
    "llama_attention_bias": {"model_type": "llama", "attention_bias": True, "mlp_bias": False},
    "smollm2": {"model_type": "llama", "num_attention_heads": 3, "num_key_value_heads": 1, "hidden_size": 12,
                "rope_theta": 130000, "tie_word_embeddings": True, "rope_interleaved": False, "rope_scaling": None,
                "is_llama_config": True, "pretraining_tp": 1},
    "mistral": {"model_type": "mistral", "sliding_window": 11, "rope_theta": 1000000.0},
    "mistral_full": {"model_type": "mistral", "sliding_window": None, "head_dim": 6},
    "qwen2": {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 9, "max_window_layers": 1,
              "rope_theta": 1000000.0, "tie_word_embeddings": True},
    "qwen2_window": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 0},
    "qwen3": {"model_type": "qwen3", "head_dim": 6, "attention_bias": False, "use_sliding_window": False,
              "sliding_window": None, "max_window_layers": 2, "rope_theta": 1000000},
}


def dims(c):
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], head


def shapes(c):
    d, heads, kv_heads, head = dims(c)
    qkv_bias = c["model_type"] == "qwen2" or c.get("attention_bias", False)
    o_bias = c["model_type"] == "llama" and c.get("attention_bias", False)
    out = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = (c["vocab_size"], d)
    for l in range(c["num_hidden_layers"]):
        p = f"model.layers.{l}."
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = (d,)
        for name, n in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
            out[p + f"self_attn.{name}.weight"] = (n * head, d)
            if qkv_bias:
                out[p + f"self_attn.{name}.bias"] = (n * head,)
        out[p + "self_attn.o_proj.weight"] = (d, heads * head)
        if o_bias:
            out[p + "self_attn.o_proj.bias"] = (d,)
        if c["model_type"] == "qwen3":
            out[p + "self_attn.q_norm.weight"] = out[p + "self_attn.k_norm.weight"] = (head,)
        for name in ("gate_proj", "up_proj"):
            out[p + f"mlp.{name}.weight"] = (c["intermediate_size"], d)
        out[p + "mlp.down_proj.weight"] = (d, c["intermediate_size"])
    return out


def inverse_frequencies(c, head):
    inv = 1.0 / c["rope_theta"] ** (torch.arange(0, head, 2, dtype=torch.float64) / head)
    scaling = c.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        return inv / scaling["factor"]
    if kind == "llama3":
        factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
        old = scaling["original_max_position_embeddings"]
        wavelength = 2 * math.pi / inv
        scaled = torch.where(wavelength > old / low, inv / factor, inv)
        smooth = (old / wavelength - low) / (high - low)
        smoothed = (1 - smooth) * scaled / factor + smooth * scaled
        medium = ~(wavelength < old / high) & ~(wavelength > old / low)
        return torch.where(medium, smoothed, scaled)
    return inv


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rms_norm(x, weight, eps):
    return weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps))


def window_of(c, layer):
    if c["model_type"] == "mistral":
        return c["sliding_window"]
    if c.get("use_sliding_window") and layer >= c["max_window_layers"]:
        return c["sliding_window"]
    return None


def attention(c, P, p, layer, x):
    n, length, _ = x.shape
    _, heads, kv_heads, head = dims(c)

    def project(name, count):
        y = x @ P[p + f"self_attn.{name}.weight"].T + P.get(p + f"self_attn.{name}.bias", 0)
        return y.view(n, length, count, head)

    q, k, v = project("q_proj", heads), project("k_proj", kv_heads), project("v_proj", kv_heads)
    if c["model_type"] == "qwen3":
        q = rms_norm(q, P[p + "self_attn.q_norm.weight"], c["rms_norm_eps"])
        k = rms_norm(k, P[p + "self_attn.k_norm.weight"], c["rms_norm_eps"])
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * inverse_frequencies(c, head)[None, :]
    angles = torch.cat((angles, angles), -1)
    q = q * angles.cos() + rotate_half(q) * angles.sin()
    k = k * angles.cos() + rotate_half(k) * angles.sin()
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = q @ k.transpose(2, 3) * head ** -0.5
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    allowed = j <= i
    window = window_of(c, layer)
    if window is not None:
        allowed = allowed & (j > i - window)
    y = torch.softmax(scores.masked_fill(~allowed, -math.inf), -1) @ v
    y = y.transpose(1, 2).reshape(n, length, heads * head)
    return y @ P[p + "self_attn.o_proj.weight"].T + P.get(p + "self_attn.o_proj.bias", 0)


def forward(c, P, tokens):
    x = P["model.embed_tokens.weight"][tokens]
    for l in range(c["num_hidden_layers"]):
        p = f"model.layers.{l}."
        x = x + attention(c, P, p, l, rms_norm(x, P[p + "input_layernorm.weight"], c["rms_norm_eps"]))
        h = rms_norm(x, P[p + "post_attention_layernorm.weight"], c["rms_norm_eps"])
        gate = torch.nn.functional.silu(h @ P[p + "mlp.gate_proj.weight"].T)
        x = x + (gate * (h @ P[p + "mlp.up_proj.weight"].T)) @ P[p + "mlp.down_proj.weight"].T
    x = rms_norm(x, P["model.norm.weight"], c["rms_norm_eps"])
    return x @ P.get("lm_head.weight", P["model.embed_tokens.weight"]).T


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors):
        raw = tensors[name].astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def build(name, changes, out):
    c = {**BASE, **changes}
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    weights = {}
    for key, shape in shapes(c).items():
        x = rng.normal(0, 0.35 if len(shape) == 2 else 0.2, shape).astype(np.float32)
        weights[key] = x + np.float32(1) if "norm" in key else x
    P = {key: torch.tensor(x, dtype=torch.float64) for key, x in weights.items()}
    tokens = rng.integers(0, c["vocab_size"], (2, T))
    logits = forward(c, P, torch.tensor(tokens)).reshape(2 * T, -1).numpy().astype(np.float32)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": ["Any"], **c}, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "tokens.json"), "w") as f:
        json.dump({"tokens": tokens.tolist()}, f)
        f.write("\n")
    write_safetensors(os.path.join(folder, "model.safetensors"), weights)
    write_safetensors(os.path.join(folder, "expected.safetensors"), {"logits": logits})
    print(f"{name}: |logits| up to {np.abs(logits).max():.2f}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(os.path.dirname(here), "golden_foreign"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, changes in FOLDERS.items():
        build(name, changes, args.out)


if __name__ == "__main__":
    main()
