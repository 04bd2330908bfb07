#!/usr/bin/python3
"""The independent judge: the whole model family in PyTorch, written from the specification and never from the C code.

    config.json -> Config -> param_shapes() -> {name: tensor} -> forward() -> logits -> loss() -> adamw_step()

Everything is a plain function over a dict of tensors whose names are those of model.safetensors; the dtype of the
tensors (float32 or float64) is the dtype of the computation. Written for clarity: no cache, no tiling, scores in full.

    oracle.py selftest          known answers, invariants of the papers, gradients, parameter counts
    oracle.py count CONFIG      tensor names, shapes and the parameter count of a config.json
"""
import argparse
import json
import math
import os
import struct
import sys
from statistics import NormalDist

import numpy as np
import torch
import torch.nn.functional as F

# ---------------------------------------------------------------------------------------------------------------------
# Random numbers: Philox4x32-10 and the 4,096-entry normal table


def philox(c0, c1, c2, c3, key):
    """Philox4x32-10. Counter words: broadcastable integer arrays; key: an integer of 64 bits. -> 4 uint32 arrays."""
    low32 = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, dtype=np.uint64) for c in (c0, c1, c2, c3)))
    k0, k1 = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)  # 32 x 32 -> 64 bits, never overflows
        hi0, lo0, hi1, lo1 = p0 >> np.uint64(32), p0 & low32, p1 >> np.uint64(32), p1 & low32
        c0, c1, c2, c3 = hi1 ^ c1 ^ np.uint64(k0), lo1, hi0 ^ c3 ^ np.uint64(k1), lo0
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c.astype(np.uint32) for c in (c0, c1, c2, c3)]


def normal_table():
    """Q[m] = float32(inverse normal CDF(0.5 + (m + 0.5) / 8192)): the positive half of the quantiles."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(0.5 + (m + 0.5) / 8192) for m in range(4096)], dtype="<f4")


Q = normal_table()


def draw16(seed, stream, layer, heads, t_query, t_key, row=0, first=0):
    """The 16-bit draws k[head, i, j], i from `first` on: one Philox block serves eight neighbouring keys j, two 16-bit
    halves a word."""
    blocks = (t_key + 7) // 8
    head = np.arange(heads).reshape(-1, 1, 1)
    i = first + np.arange(t_query).reshape(1, -1, 1)
    j8 = np.arange(blocks).reshape(1, 1, -1)
    words = philox((row << 16) | j8, i, head | (layer << 16), stream, seed)
    out = np.empty((heads, t_query, blocks, 8), dtype=np.uint32)
    for w in range(4):
        out[..., 2 * w] = words[w] & 0xFFFF
        out[..., 2 * w + 1] = words[w] >> 16
    return out.reshape(heads, t_query, 8 * blocks)[:, :, :t_key]


def normal_of(k):
    """Bit 15 is the sign, bits 3..14 the table index (bits 0..2 are unused)."""
    return np.where(k >> 15, -1.0, 1.0).astype(np.float32) * Q[(k >> 3) & 4095]


def gaussian(seed, stream, layer, heads, t_query, t_key, row=0):
    """eps[head, i, j] ~ N(0, 1), a pure function of (seed, stream, layer, head, i, j)."""
    return normal_of(draw16(seed, stream, layer, heads, t_query, t_key, row))


def code(seed, stream, layer, heads, dim, row=0):
    """eps[head, feature] ~ N(0, 1): one vector a head for the whole sequence, at the query 0xFFFFFFFF that no row is."""
    return normal_of(draw16(seed, stream, layer, heads, 1, dim, row, first=0xFFFFFFFF))[:, 0]


def component_uniform(seed, stream, layer, heads, t_query, t_key, row=0):
    """u[head, i, j] in (0, 1) that chooses a mixture component: the second draw, 16 bits at the same counter."""
    return (draw16(seed, stream | 0x80000000, layer, heads, t_query, t_key, row) + 0.5) / 65536.0


# ---------------------------------------------------------------------------------------------------------------------
# safetensors

NUMPY_TYPE = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "<i1", "U8": "<u1", "I64": "<i8", "I32": "<i4"}


def write_safetensors(path, tensors, metadata=None):
    """F32 only. Names sorted, data contiguous without holes, header padded with spaces to a 64-byte data start."""
    header = {"__metadata__": {"format": "pt", **(metadata or {})}}
    arrays, offset = [], 0
    for name in sorted(tensors):
        a = np.ascontiguousarray(torch.as_tensor(tensors[name]).detach().cpu().numpy().astype("<f4"))
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
        arrays.append(a)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays))


def read_safetensors(path):
    """-> ({name: float32 tensor}, metadata). BF16, F16 are widened, I8 is multiplied by <name>_scale (groups of 64), U8
    is 4-bit codes in blocks (docs/spec.md 2.3)."""
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    metadata = header.pop("__metadata__", {})
    out, quantised, blocks = {}, [], []
    for name, info in header.items():
        begin, end = info["data_offsets"]
        a = np.frombuffer(data[begin:end], dtype=NUMPY_TYPE[info["dtype"]]).reshape(info["shape"])
        if info["dtype"] == "BF16":
            a = (a.astype(np.uint32) << 16).view(np.float32)
        if info["dtype"] == "I8":
            quantised.append(name)
        if info["dtype"] == "U8":
            blocks.append(name)
        out[name] = torch.from_numpy(a.astype(np.float32))
    for name in quantised:
        out[name] = out[name] * out.pop(name + "_scale").repeat_interleave(64, dim=1)[:, : out[name].shape[1]]
    for name in blocks:
        outs, groups = out[name].shape[:2]
        b = out[name].reshape(outs, groups, 4, 16, 4)
        codes = torch.stack((b % 16, torch.floor(b / 16))) - 8  # [half, out / 16, in / 32, q, o, r]
        codes = codes.permute(1, 4, 2, 0, 3, 5) * out.pop(name + "_scale").permute(0, 2, 1)[..., None, None, None]
        out[name] = codes.reshape(outs * 16, groups * 32)
    return out, metadata


# ---------------------------------------------------------------------------------------------------------------------
# Configuration (config.json)

MLA_KEYS = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
OBJECT_KEYS = {
    "mlp": {"activation", "gated", "intermediate_size"},
    "attention": {"kind", *MLA_KEYS, "q_rank", "rank"},
    "noise": {"scope", "density", "span", "site", "components", "conditioned", "condition_dim"},
    "sas": {"heads", "head_dim", "kernel", "activation", "rope"},
    "noble": {"rank", "activation", "layers"},
}
KINDS = ("mha", "symmetric", "pairwise", "gqa", "mla", "tpa", "differential", "lecture")
LATE_ROPE = ("mha", "symmetric", "gqa", "differential", "lecture")  # SAS may rotate in their place


class Config:
    """config.json with defaults resolved. `source` keeps the original dictionary."""

    def __init__(self, source):
        self.source = source
        if source.get("model_type") in ("llama", "mistral"):
            source = from_llama(source)
        c = source
        for name, known in OBJECT_KEYS.items():
            for key in c.get(name) or {}:
                if key not in known:
                    raise ValueError(f"config.json: unknown key {name}.{key}")
        self.vocab, self.d, self.layers = c["vocab_size"], c["hidden_size"], c["num_hidden_layers"]
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.head_dim = c.get("head_dim") or self.d // self.heads
        self.max_positions = c["max_position_embeddings"]
        self.norm, self.norm_eps = c.get("norm", "layernorm"), c.get("norm_eps", 1e-5)
        self.position, self.theta = c.get("position", "learned"), c.get("rope_theta", 10000.0)
        self.bias, self.tied = c.get("bias", False), c.get("tie_word_embeddings", True)
        self.causal = c.get("causal", True)
        mlp = c.get("mlp") or {}
        self.act, self.gated = mlp.get("activation", "gelu"), mlp.get("gated", False)
        self.intermediate = mlp.get("intermediate_size", 4 * self.d)
        a = self.attention = c.get("attention") or {"kind": "mha"}
        self.kind = a["kind"]
        assert self.kind in KINDS, self.kind
        assert self.heads % self.kv_heads == 0
        assert self.kind in ("gqa", "mla", "tpa") or self.kv_heads == self.heads, "one kv head per head unless gqa"
        # Dimensions that attention sees: the dotted vectors and the values.
        self.qk_dim = a["qk_nope_head_dim"] + a["qk_rope_head_dim"] if self.kind == "mla" else self.head_dim
        self.v_dim = a["v_head_dim"] if self.kind == "mla" else self.head_dim
        self.maps = self.heads  # softmax maps before SAS
        if self.kind == "differential":  # two maps a head, over one value of twice the width
            self.maps, self.v_dim = 2 * self.heads, 2 * self.head_dim
        assert self.kind != "lecture" or self.head_dim == self.d, "K, Q, V of the lecture notes are D x D"
        s = self.sas = c.get("sas")
        if s:
            self.sas_heads, self.sas_dim = s.get("heads", self.heads), s.get("head_dim", self.qk_dim)
            self.sas_kernel, self.sas_act = s.get("kernel", 1), s.get("activation", "relu")
            self.sas_rope = s.get("rope", "pre")
            assert self.sas_heads % self.maps == 0 and (self.sas_kernel % 2 == 1 or self.sas_kernel == 0)
            assert self.sas_act in ("relu", "none") and self.sas_rope in ("pre", "post")
            assert self.sas_rope == "pre" or self.kind in LATE_ROPE
            self.sas_head_stage = self.sas_kernel > 0  # a kernel of 1 is the MLP over heads of eqs. 1 to 4
            assert self.sas_head_stage or self.sas_heads == self.maps
            self.sas_feature_stage = self.sas_dim != self.qk_dim
        self.score_heads = self.sas_heads if s else self.maps
        n = self.noise = c.get("noise")
        if n:
            self.density, self.conditioned = n.get("density", "gaussian"), n.get("conditioned", False)
            assert n["scope"] in ("layer", "head") and self.density in ("gaussian", "mixture")
            assert not (self.conditioned and self.density == "mixture"), "the specification conditions a Gaussian only"
            self.span = n.get("span", "pair")
            assert self.span in ("pair", "key", "sequence")
            assert self.span != "sequence" or not self.conditioned
            self.mixes = self.span == "sequence" and self.density == "mixture"
            self.residual = n.get("site", "query") == "residual"
            assert not self.residual or (self.mixes and n["scope"] == "layer")
            self.noise_heads = 1 if n["scope"] == "layer" else self.score_heads
            self.components, self.condition_dim = n.get("components", 4), n.get("condition_dim", 16)
        b = self.noble = c.get("noble")
        if b:
            self.rank, self.noble_act, self.noble_layers = b["rank"], b.get("activation", "cosnet"), b.get("layers", 2)
            assert self.noble_act in ("cosnet", "tanh", "gelu", "leaky_relu", "relu")
            assert self.noble_layers in (1, 2) or (self.noble_layers == 3 and self.noble_act == "cosnet")


def from_llama(c):
    """A Hugging Face Llama config in the terms of ours."""
    heads = c["num_attention_heads"]
    kv = c.get("num_key_value_heads") or heads
    return {
        **{k: c[k] for k in ("vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings")},
        "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": c.get("head_dim"),
        "norm": "rmsnorm", "norm_eps": c.get("rms_norm_eps", 1e-6), "position": "rope",
        "rope_theta": c.get("rope_theta", 10000.0), "bias": c.get("attention_bias", False),
        "tie_word_embeddings": c.get("tie_word_embeddings", False),
        "mlp": {"activation": c.get("hidden_act", "silu"), "gated": True, "intermediate_size": c["intermediate_size"]},
        "attention": {"kind": "gqa"},
    }


COSINES = {1: ("in",), 2: ("in", "out"), 3: ("in", "mid", "out")}  # of CosNet, by its layers


def block_linears(cfg):
    """The linears of one block: [(name, out, in)]. Each may have a bias and carry a NOBLE branch."""
    d, H, G, D = cfg.d, cfg.heads, cfg.kv_heads, cfg.head_dim
    a, attn = cfg.attention, "self_attn."
    if cfg.kind == "mla":
        rq, dc, dn, dr, dv = (a[k] for k in MLA_KEYS)
        out = [("q_a_proj", rq, d), ("q_b_proj", H * (dn + dr), rq),
               ("kv_a_proj_with_mqa", dc + dr, d), ("kv_b_proj", H * (dn + dv), dc)]
    elif cfg.kind == "tpa":
        rq, r = a["q_rank"], a["rank"]
        out = [("a_q_proj", H * rq, d), ("a_k_proj", H * r, d), ("a_v_proj", H * r, d),
               ("b_q_proj", rq * D, d), ("b_k_proj", r * D, d), ("b_v_proj", r * D, d)]
    elif cfg.kind == "differential":
        out = [("q_proj", 2 * H * D, d), ("k_proj", 2 * H * D, d), ("v_proj", 2 * H * D, d)]
    else:
        out = [("q_proj", H * D, d), ("v_proj", G * D, d)]
        if cfg.kind in ("mha", "gqa", "lecture"):
            out.append(("k_proj", G * D, d))
    out = [(attn + n, o, i) for n, o, i in out] + [(attn + "o_proj", d, H * cfg.v_dim)]
    h = cfg.intermediate
    return out + [("mlp.gate_up_proj", 2 * h, d) if cfg.gated else ("mlp.up_proj", h, d), ("mlp.down_proj", d, h)]


def param_shapes(cfg):
    """{tensor name: shape} of model.safetensors."""
    d, H, shapes = cfg.d, cfg.heads, {}

    def norm(name, size, bias=cfg.norm == "layernorm" and cfg.bias):
        shapes[name + ".weight"] = (size,)
        if bias:
            shapes[name + ".bias"] = (size,)

    def biased(name, *shape):
        shapes[name + ".weight"], shapes[name + ".bias"] = shape, shape[:1]

    shapes["model.embed_tokens.weight"] = (cfg.vocab, d)
    if cfg.position == "learned":
        shapes["model.embed_positions.weight"] = (cfg.max_positions, d)
    for l in range(cfg.layers):
        p = f"model.layers.{l}."
        norm(p + "input_layernorm", d)
        norm(p + "post_attention_layernorm", d)
        for name, n_out, n_in in block_linears(cfg):
            shapes[p + name + ".weight"] = (n_out, n_in)
            if cfg.bias:
                shapes[p + name + ".bias"] = (n_out,)
            if cfg.noble:
                b, r = p + name + ".noble.", cfg.rank
                shapes[b + "down.weight"], shapes[b + "up.weight"] = (r, n_in), (n_out, r)
                if cfg.noble_layers >= 2:
                    shapes[b + "mix.weight"] = (r, r)
                if cfg.noble_layers == 3:
                    shapes[b + "mix2.weight"] = (r, r)
                if cfg.noble_act == "cosnet":
                    for place in COSINES[cfg.noble_layers]:
                        shapes[b + "freq_" + place] = shapes[b + "phase_" + place] = (r,)
        s = p + "self_attn."
        if cfg.kind == "pairwise":
            shapes[s + "pair.weight"] = (H, cfg.head_dim, cfg.head_dim)
        if cfg.kind == "differential":
            for v in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
                shapes[s + v] = (cfg.head_dim,)
            norm(s + "head_norm", 2 * cfg.head_dim, bias=False)
        if cfg.kind == "mla":  # inner norms are always RMSNorm with a gain
            norm(s + "q_a_layernorm", cfg.attention["q_lora_rank"], bias=False)
            norm(s + "kv_a_layernorm", cfg.attention["kv_lora_rank"], bias=False)
        if cfg.noise:
            n, m = cfg.noise_heads, cfg.condition_dim
            if cfg.conditioned:
                biased(s + "noise.condition.down", m, d)
                biased(s + "noise.condition.up", 2 * n, m)
            elif cfg.mixes:
                width = d if cfg.residual else cfg.sas_dim if cfg.sas else cfg.qk_dim
                shapes[s + "noise.mu"] = (n, cfg.components, width)
                shapes[s + "noise.sigma"] = (n, cfg.components)
            elif cfg.density == "mixture":
                for v in ("weight", "mu", "sigma"):
                    shapes[s + "noise." + v] = (n, cfg.components)
            else:
                for v in ("mu", "sigma") if cfg.span != "sequence" else ("sigma",):
                    shapes[s + "noise." + v] = (n,)
        if cfg.sas:
            for x in "qkv":
                if cfg.sas_head_stage:
                    biased(s + f"sas.{x}.head_in", cfg.sas_heads, cfg.maps, cfg.sas_kernel)
                    biased(s + f"sas.{x}.head_out", cfg.sas_heads, cfg.sas_heads, cfg.sas_kernel)
                if cfg.sas_feature_stage and x != "v":
                    biased(s + f"sas.{x}.feature_in", cfg.sas_dim, cfg.qk_dim)
                    biased(s + f"sas.{x}.feature_out", cfg.sas_dim, cfg.sas_dim)
    norm("model.norm", d)
    if not cfg.tied:
        shapes["lm_head.weight"] = (cfg.vocab, d)
    return shapes


def count(shapes, contains=""):
    return sum(math.prod(s) for n, s in shapes.items() if contains in n)


# ---------------------------------------------------------------------------------------------------------------------
# Layers

ACTIVATIONS = {
    "gelu": F.gelu,  # exact erf form
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * torch.sigmoid(x),
    "relu": F.relu,
    "tanh": torch.tanh,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "none": lambda x: x,
}


def norm(cfg, P, name, x):
    if cfg.norm == "rmsnorm":
        return rmsnorm(cfg, P, name, x)
    y = x - x.mean(-1, keepdim=True)
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + cfg.norm_eps) * P[name + ".weight"]
    return y + P[name + ".bias"] if name + ".bias" in P else y


def rmsnorm(cfg, P, name, x):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + cfg.norm_eps) * P[name + ".weight"]


def noble_branch(cfg, P, name, x):
    """up * act(down x). CosNet: cosines, each of a frequency and a phase a dimension, h = cos(f * h + p), with a mixing
    matrix between each two (paper eq. 5 to 7; its authors' code of three layers has three such cosines)."""
    b = name + ".noble."
    h = x @ P[b + "down.weight"].T
    if cfg.noble_act == "cosnet":
        mixes = iter(("mix.weight", "mix2.weight"))
        for n, place in enumerate(COSINES[cfg.noble_layers]):
            if n > 0:
                h = h @ P[b + next(mixes)].T
            h = torch.cos(P[b + "freq_" + place] * h + P[b + "phase_" + place])
    else:
        act = ACTIVATIONS[cfg.noble_act]
        h = act(h)
        if cfg.noble_layers == 2:
            h = act(h @ P[b + "mix.weight"].T)
    return h @ P[b + "up.weight"].T


def linear(cfg, P, name, x):
    y = x @ P[name + ".weight"].T
    if name + ".bias" in P:
        y = y + P[name + ".bias"]
    return y + noble_branch(cfg, P, name, x) if cfg.noble else y


def rope(cfg, x):
    """Split-half rotation of x[B, T, heads, D] by the token's position; angle = pos * theta^(-2i / D)."""
    T, D = x.shape[1], x.shape[3]
    inverse = torch.tensor([cfg.theta ** (-2 * i / D) for i in range(D // 2)], dtype=torch.float64)
    angle = torch.arange(T, dtype=torch.float64)[:, None] * inverse
    cos, sin = (f(angle).to(x.dtype)[:, None, :] for f in (torch.cos, torch.sin))
    x1, x2 = x[..., : D // 2], x[..., D // 2 :]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)


def project(cfg, P, p, x):
    """x[B, T, d] -> q[B, T, M, Dk], k[B, T, M, Dk], v[B, T, M, Dv]: the base attention's vectors for its M softmax maps,
    shared ones repeated."""
    B, T, _ = x.shape
    H, D, a = cfg.heads, cfg.head_dim, cfg.attention
    rotate_base = cfg.position == "rope" and not (cfg.sas and cfg.sas_rope == "post")
    turn = (lambda y: rope(cfg, y)) if rotate_base else (lambda y: y)
    lin = lambda name, y=x: linear(cfg, P, p + name, y)
    if cfg.kind == "mla":
        dn, dr, dv, dc = a["qk_nope_head_dim"], a["qk_rope_head_dim"], a["v_head_dim"], a["kv_lora_rank"]
        cq = rmsnorm(cfg, P, p + "q_a_layernorm", lin("q_a_proj"))
        qn, qr = lin("q_b_proj", cq).view(B, T, H, dn + dr).split([dn, dr], -1)
        c, kr = lin("kv_a_proj_with_mqa").split([dc, dr], -1)
        kn, v = lin("kv_b_proj", rmsnorm(cfg, P, p + "kv_a_layernorm", c)).view(B, T, H, dn + dv).split([dn, dv], -1)
        kr = turn(kr.reshape(B, T, 1, dr)).expand(B, T, H, dr)  # one rotated vector shared by all heads
        return torch.cat([qn, turn(qr)], -1), torch.cat([kn, kr], -1), v
    if cfg.kind == "tpa":
        def factors(which, rank):
            A = lin(f"a_{which}_proj").view(B, T, H, rank)
            return A, lin(f"b_{which}_proj").view(B, T, rank, D)
        Aq, Bq = factors("q", a["q_rank"])
        Ak, Bk = factors("k", a["rank"])
        Av, Bv = factors("v", a["rank"])
        return Aq @ turn(Bq) / a["q_rank"], Ak @ turn(Bk) / a["rank"], Av @ Bv / a["rank"]
    if cfg.kind == "differential":  # maps 2h and 2h + 1 are head h's Q1 K1 and Q2 K2, and read the same V
        q, k = (turn(lin(n).view(B, T, 2 * H, D)) for n in ("q_proj", "k_proj"))
        return q, k, lin("v_proj").view(B, T, H, 2 * D).repeat_interleave(2, 2)
    q = turn(lin("q_proj").view(B, T, H, D))
    v = lin("v_proj").view(B, T, cfg.kv_heads, D)
    if cfg.kind == "symmetric":
        return q, q, v
    if cfg.kind == "pairwise":  # s = q F q'^T: the F is put on the query's side
        return torch.einsum("bthd,hde->bthe", q, P[p + "pair.weight"]), q, v
    k = turn(lin("k_proj").view(B, T, cfg.kv_heads, D))
    repeat = H // cfg.kv_heads  # query head h reads kv head h / repeat
    return q, k.repeat_interleave(repeat, 2), v.repeat_interleave(repeat, 2)


def sas_expand(cfg, P, p, x):
    """Simulated heads, then (q, k) simulated features. Heads are channels; the convolution runs along the features."""
    act = ACTIVATIONS[cfg.sas_act]
    B, T, H, D = x.shape
    if cfg.sas_head_stage:
        conv = lambda y, n: F.conv1d(y, P[p + n + ".weight"], P[p + n + ".bias"], padding=(cfg.sas_kernel - 1) // 2)
        x1 = conv(x.reshape(B * T, H, D), "head_in")
        x = (x1 + conv(act(x1), "head_out")).view(B, T, cfg.sas_heads, D)
    if p + "feature_in.weight" in P:
        y1 = x @ P[p + "feature_in.weight"].T + P[p + "feature_in.bias"]
        x = y1 + act(y1) @ P[p + "feature_out.weight"].T + P[p + "feature_out.bias"]
    return x


class Draw:
    """Which noise: seed, scale, stream, and whether every row of the batch has its own."""

    def __init__(self, seed=0, scale=1.0, stream=0, per_sequence=False):
        self.seed, self.scale, self.stream, self.per_sequence = seed, scale, stream, per_sequence

    def stack(self, f, cfg, layer, B, dtype, *shape):
        rows = range(B) if self.per_sequence else range(1)
        a = np.stack([f(self.seed, self.stream, layer, cfg.noise_heads, *shape, row) for row in rows])
        return torch.from_numpy(a).to(dtype)  # [B or 1, noise_heads, *shape]

    def arrays(self, f, cfg, layer, B, T, dtype):
        """[B or 1, noise_heads, T, T]; span key: one row of keys for all queries, [.., 1, T]."""
        return self.stack(f, cfg, layer, B, dtype, 1 if cfg.span == "key" else T, T)

    def components(self, cfg, B):
        """[B or 1]: the component of every row, uniform over K, from the first word of the draw."""
        words = [philox(row << 16, 0xFFFFFFFE, 0, self.stream | 0x80000000, self.seed)[0]
                 for row in (range(B) if self.per_sequence else range(1))]
        return torch.tensor([math.floor(int(w) / 2**32 * cfg.components) for w in words])


def condition(cfg, P, p, x):
    """z = gelu(down x), (mu, log sigma^2) = up z: the first n outputs are mu, the last n log sigma^2. -> [B, n, T]"""
    n = p + "noise.condition."
    z = F.gelu(x @ P[n + "down.weight"].T + P[n + "down.bias"])
    mu, log_var = (z @ P[n + "up.weight"].T + P[n + "up.bias"]).transpose(1, 2).split(cfg.noise_heads, 1)
    return mu, log_var


def noise(cfg, P, p, layer, x, draw, kl):
    """n[B or 1, 1 or heads, T, T] to add to the scores; appends to kl the divergences of this layer's distributions."""
    B, T, _ = x.shape
    n = p + "noise."
    eps = draw.scale * draw.arrays(gaussian, cfg, layer, B, T, x.dtype)
    if cfg.conditioned:
        mu, log_var = condition(cfg, P, p, x)
        kl.append(kl_normal(mu, torch.exp(log_var), log_var).mean((0, 2)).sum())  # averaged over the tokens
        return mu[:, :, None, :] + torch.exp(0.5 * log_var)[:, :, :, None] * eps  # mu of the KEY, sigma of the QUERY
    mu, sigma = P[n + "mu"], P[n + "sigma"]
    variance = sigma * sigma + 1e-12
    divergence = kl_normal(mu, variance, torch.log(variance))
    if cfg.density == "gaussian":
        kl.append(divergence.sum())
        return mu[:, None, None] + sigma[:, None, None] * eps
    p_c = torch.softmax(P[n + "weight"], -1)  # [n, M]
    kl.append((p_c * divergence).sum())  # convex bound
    u = draw.arrays(component_uniform, cfg, layer, B, T, x.dtype)
    below = torch.cumsum(p_c.detach(), -1)[:, None, None, :-1] <= u[..., None]
    chosen = F.one_hot(below.sum(-1), cfg.components).to(x.dtype)  # first c whose cumulative probability exceeds u
    hard = torch.einsum("bhijc,hc->bhij", chosen, mu) + torch.einsum("bhijc,hc->bhij", chosen, sigma) * eps
    # Straight-through: the value is `hard`, and so are the gradients of mu and sigma; the weights see the expectation
    # sum_c p_c (mu_c + sigma_c eps), whose derivative is p_c ((mu_c + sigma_c eps) - sum_k p_k (mu_k + sigma_k eps)).
    soft = (p_c * mu.detach()).sum(-1)[:, None, None] + (p_c * sigma.detach()).sum(-1)[:, None, None] * eps
    return hard + (soft - soft.detach())


def noise_code(cfg, P, p, layer, q, draw, kl):
    """Span sequence: q[B, heads, T, D] + sigma eps, a vector of D features that every token of a sequence shares."""
    sigma = P[p + "noise.sigma"]
    variance = sigma * sigma + 1e-12
    divergence = kl_normal(torch.zeros_like(sigma), variance, torch.log(variance))
    kl.append(divergence.mean(-1).sum() if cfg.mixes else divergence.sum())
    if cfg.mixes:  # scale (mu_z + sigma_z eps), z one component for the whole sequence and network
        z = draw.components(cfg, q.shape[0])
        eps = draw.scale * draw.stack(code, cfg, layer, q.shape[0], q.dtype, q.shape[3])
        mu, sigma = P[p + "noise.mu"][:, z].transpose(0, 1), sigma[:, z].T  # [B or 1, n, D], [B or 1, n]
        return q + (draw.scale * mu + sigma[:, :, None] * eps)[:, :, None, :]
    eps = draw.scale * draw.stack(code, cfg, layer, q.shape[0], q.dtype, q.shape[3])
    return q + (sigma[:, None] * eps)[:, :, None, :]


def kl_normal(mu, variance, log_variance):
    """KL(N(mu, sigma^2) || N(0, 1))"""
    return 0.5 * (mu * mu + variance - log_variance - 1)


def lambda_init(layer):
    """Differential attention: 0.8 - 0.6 exp(-0.3 (l - 1)), layers counted from l = 1."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


def differential(P, p, layer, o):
    """o[B, T, 2H, 2D], what each map mixed -> [B, T, H, 2D]: (A1 - lambda A2) V, normalised per head."""
    lam = (P[p + "lambda_q1"] @ P[p + "lambda_k1"]).exp() - (P[p + "lambda_q2"] @ P[p + "lambda_k2"]).exp()
    y = o[:, :, 0::2] - (lam + lambda_init(layer)) * o[:, :, 1::2]
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5) * P[p + "head_norm.weight"]
    return y * (1 - lambda_init(layer))


def attention(cfg, P, p, layer, x, draw, kl, trace=None):
    B, T, _ = x.shape
    q, k, v = project(cfg, P, p, x)
    if cfg.sas:
        q, k, v = (sas_expand(cfg, P, p + f"sas.{n}.", y) for n, y in (("q", q), ("k", k), ("v", v)))
        if cfg.sas_rope == "post" and cfg.position == "rope":
            q, k = rope(cfg, q), rope(cfg, k)
    q, k, v = (y.transpose(1, 2) for y in (q, k, v))  # [B, heads, T, D]
    if cfg.noise and cfg.span == "sequence" and not cfg.residual:
        q = noise_code(cfg, P, p, layer, q, draw, kl)
    s = q @ k.transpose(2, 3)
    if cfg.kind != "lecture":
        s = s / math.sqrt(q.shape[-1])
    if cfg.noise and cfg.span != "sequence":
        n = noise(cfg, P, p, layer, x, draw, kl)
        if trace is not None:
            n.retain_grad()
            trace[layer] = n
        s = s + n
    if cfg.causal:
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
    o = (torch.softmax(s, -1) @ v).transpose(1, 2)  # [B, T, heads, Dv]
    # Parameter-efficient aggregation: average the groups of H consecutive heads, then the one o_proj.
    o = o.reshape(B, T, cfg.score_heads // cfg.maps, cfg.maps * cfg.v_dim).mean(2)
    if cfg.kind == "differential":
        o = differential(P, p, layer, o.view(B, T, cfg.maps, cfg.v_dim)).reshape(B, T, -1)
    return linear(cfg, P, p + "o_proj", o)


def mlp(cfg, P, p, x):
    act = ACTIVATIONS[cfg.act]
    if cfg.gated:
        gate, up = linear(cfg, P, p + "gate_up_proj", x).chunk(2, -1)
        h = act(gate) * up
    else:
        h = act(linear(cfg, P, p + "up_proj", x))
    return linear(cfg, P, p + "down_proj", h)


def forward(cfg, P, tokens, draw=None, kl=None, trace=None):
    """tokens[B, T] -> logits[B, T, V]. kl, a list, receives one divergence per layer with noise."""
    draw, kl = draw or Draw(), [] if kl is None else kl
    x = P["model.embed_tokens.weight"][tokens]
    if cfg.position == "learned":
        x = x + P["model.embed_positions.weight"][: tokens.shape[1]]
    for l in range(cfg.layers):
        p = f"model.layers.{l}."
        if cfg.noise and cfg.residual:  # [B, T, d] as one head of d features
            x = noise_code(cfg, P, p + "self_attn.", l, x[:, None], draw, kl)[:, 0]
        x = x + attention(cfg, P, p + "self_attn.", l, norm(cfg, P, p + "input_layernorm", x), draw, kl, trace)
        x = x + mlp(cfg, P, p + "mlp.", norm(cfg, P, p + "post_attention_layernorm", x))
    x = norm(cfg, P, "model.norm", x)
    return x @ P["model.embed_tokens.weight" if cfg.tied else "lm_head.weight"].T


# ---------------------------------------------------------------------------------------------------------------------
# Training


def loss(cfg, P, batch, draw, alpha, trace=None):
    """Mean token cross-entropy + alpha * sum of the divergences. batch[B, T + 1]. -> (loss, cross-entropy, logits)"""
    kl = []
    logits = forward(cfg, P, batch[:, :-1], draw, kl, trace)
    ce = F.cross_entropy(logits.reshape(-1, cfg.vocab), batch[:, 1:].reshape(-1))
    return ce + alpha * sum(kl), ce, logits


def gradients(cfg, P, batch, draw, alpha):
    P = {n: t.detach().clone().requires_grad_(True) for n, t in P.items()}
    total, ce, logits = loss(cfg, P, batch, draw, alpha)
    total.backward()
    grads = {n: torch.zeros_like(t) if t.grad is None else t.grad for n, t in P.items()}
    return total.detach(), ce.detach(), logits.detach(), grads


def decayed(name, shape):
    """Weight decay: tensors of two or more dimensions, nothing of the noise (NOBLE's vectors have one dimension)."""
    return len(shape) >= 2 and ".noise." not in name


def lr_multiplier(name, shapes):
    """NOBLE: m = min(in, out) / r of the branch's linear; up m^0.6, mix m^0.45, frequencies 3, phases 5."""
    if ".noble." not in name:
        return 1.0
    stem, leaf = name.split(".noble.")
    n_out, n_in = shapes[stem + ".weight"]
    m = min(n_in, n_out) / shapes[stem + ".noble.down.weight"][0]
    if leaf == "up.weight":
        return m**0.6
    if leaf in ("mix.weight", "mix2.weight"):
        return m**0.45
    return 3.0 if leaf.startswith("freq") else 5.0 if leaf.startswith("phase") else 1.0


def adamw_step(P, grads, state, step, lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, clip=1.0):
    """One step from 0 on, in place. The multiplier scales the tensor's whole learning rate, its decay too."""
    shapes = {n: tuple(t.shape) for n, t in P.items()}
    total = math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads.values()))
    scale = min(1.0, clip / total) if clip and total > 0 else 1.0
    for n, t in P.items():
        rate, g = lr * lr_multiplier(n, shapes), grads[n] * scale
        m, v = state.setdefault(n, (torch.zeros_like(t), torch.zeros_like(t)))
        m.mul_(betas[0]).add_(g, alpha=1 - betas[0])
        v.mul_(betas[1]).add_(g * g, alpha=1 - betas[1])
        if decayed(n, shapes[n]):
            t.mul_(1 - rate * weight_decay)
        m_hat, v_hat = m / (1 - betas[0] ** (step + 1)), v / (1 - betas[1] ** (step + 1))
        t.sub_(rate * m_hat / (torch.sqrt(v_hat) + eps))
    return total


def warmup_lr(lr, warmup, step):
    """Linear warm-up, then constant (the golden cases use no decay)."""
    return lr * (step + 1) / warmup if step < warmup else lr


def train(cfg, P, batch, steps, seed, scale=1.0, per_sequence=False, alpha=5e-6, lr=3e-3, warmup=3, **adam):
    """`steps` AdamW steps on one batch, one micro-batch each: stream = 1 + step. -> (parameters, losses)"""
    P, state, losses = {n: t.detach().clone() for n, t in P.items()}, {}, []
    for s in range(steps):
        total, _, _, grads = gradients(cfg, P, batch, Draw(seed, scale, 1 + s % (2**32 - 1), per_sequence), alpha)
        losses.append(float(total))
        adamw_step(P, grads, state, s, warmup_lr(lr, warmup, s), **adam)
    return P, losses


def load(directory, dtype=torch.float32):
    """A checkpoint directory -> (Config, {name: tensor}); separate gate_proj and up_proj are stacked."""
    with open(os.path.join(directory, "config.json")) as f:
        cfg = Config(json.load(f))
    P, _ = read_safetensors(os.path.join(directory, "model.safetensors"))
    for l in range(cfg.layers):
        m = f"model.layers.{l}.mlp."
        for leaf in ("weight", "bias"):
            if m + "gate_proj." + leaf in P:
                halves = [P.pop(m + side + leaf) for side in ("gate_proj.", "up_proj.")]
                P[m + "gate_up_proj." + leaf] = torch.cat(halves)
    shapes = param_shapes(cfg)
    for name, shape in shapes.items():
        if name not in P:
            raise ValueError(f"{directory}: {name} is missing")
        if tuple(P[name].shape) != tuple(shape):
            raise ValueError(f"{directory}: {name} is {list(P[name].shape)}, config wants {list(shape)}")
    return cfg, {n: P[n].to(dtype) for n in shapes}


def main():
    parser = argparse.ArgumentParser(description="PyTorch oracle of the model family")
    sub = parser.add_subparsers(dest="command", required=True)
    sub.add_parser("selftest", help="known answers, invariants, gradients, parameter counts")
    c = sub.add_parser("count", help="names, shapes and number of parameters of a config.json")
    c.add_argument("config")
    args = parser.parse_args()
    if args.command == "selftest":
        import selftest

        return selftest.run()
    with open(args.config) as f:
        shapes = param_shapes(Config(json.load(f)))
    for name in sorted(shapes):
        print(name, list(shapes[name]))
    print("parameters", count(shapes), "without positions", count(shapes) - count(shapes, "embed_positions"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
