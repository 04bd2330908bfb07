#!/usr/bin/python3
"""Writes the golden cases tests/golden/task_*/ : networks that classify, fill masks or see images.

    make_tasks.py [--only NAME] [--out DIR]

Written from the papers and from PyTorch's own modules, never from the C code: nn.TransformerEncoderLayer is the block
of BERT (norms behind the sums) and of ViT (norms first), conv2d cuts the patches, torch.optim.AdamW trains. The files
are those of make_golden.py, whose inputs are targets too; here tokens.json names `targets`, one for each row of logits,
and `weights` where only some rows count; images are in expected.safetensors.
"""
import argparse
import json
import math
import os
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.stateless import functional_call

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import oracle  # noqa: E402

STEPS, LR, WARMUP, DECAY, CLIP, BETAS, EPS = 10, 3e-3, 3, 0.1, 1.0, (0.9, 0.95), 1e-8
D, HEADS, WIDTH, LAYERS, VOCAB = 12, 3, 16, 2, 19
SEED = 4711

BASE = {
    "model_type": "noised", "hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "head_dim": 4,
    "max_position_embeddings": 12, "norm": "layernorm", "norm_eps": 1e-5, "position": "learned", "bias": True,
    "causal": False, "mlp": {"activation": "gelu", "gated": False, "intermediate_size": WIDTH},
    "attention": {"kind": "mha"}, "torch_dtype": "float32",
}
TEXT = {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 0}
LABELS = {"0": "NEG", "1": "POS", "2": "neither"}
POST = {"norm": "post", "residual": True}
IMAGE = {"kind": "patches", "image_size": [6, 4], "channels": 2, "patch_size": 2}


def shapes_of(c):
    """Names and shapes of every tensor of the cases below."""
    out, classes = {}, len(c.get("id2label", {}))
    block = c.get("block", {"norm": "pre"})["norm"]

    def linear(name, n_out, n_in, bias=True):
        out[name + ".weight"] = (n_out, n_in)
        if bias:
            out[name + ".bias"] = (n_out,)

    def norm(name):
        out[name + ".weight"] = out[name + ".bias"] = (D,)

    if "vocab_size" in c:
        out["model.embed_tokens.weight"] = (c["vocab_size"], D)
    else:
        p = c["input"]["patch_size"]
        linear("model.embed_patches", D, c["input"]["channels"] * p * p)
        if c.get("pool", "first") == "first":
            out["model.cls_token"] = (D,)
    if c["position"] == "learned":
        out["model.embed_positions.weight"] = (c["max_position_embeddings"], D)
    inner = D * c["num_attention_heads"] if c["attention"]["kind"] == "lecture" else D
    for l in range(LAYERS):
        p = f"model.layers.{l}."
        for which in ("q_proj", "k_proj", "v_proj"):
            linear(p + "self_attn." + which, inner, D)
        linear(p + "self_attn.o_proj", D, inner)
        if c["mlp"]["intermediate_size"]:
            linear(p + "mlp.up_proj", WIDTH, D)
            linear(p + "mlp.down_proj", D, WIDTH)
        if block == "pre":
            norm(p + "input_layernorm")
        if block != "none":
            norm(p + "post_attention_layernorm")
        if block == "post":
            norm(p + "post_feedforward_layernorm")
    if block == "pre":
        norm("model.norm")
    if classes:
        linear("classifier" if c["task"] == "token-classification" else "score", classes, D)
    return out


def encoder_layer(P, l, x, act, norm_first):
    """PyTorch's block on x[B, T, D] with the weights of layer l."""
    p = f"model.layers.{l}."
    layer = nn.TransformerEncoderLayer(D, HEADS, WIDTH, dropout=0.0, activation=act, layer_norm_eps=1e-5,
                                       batch_first=True, norm_first=norm_first, dtype=x.dtype)
    norms = ("input_layernorm", "post_attention_layernorm", "post_feedforward_layernorm")[0 if norm_first else 1 :]
    W = {}
    for leaf in ("weight", "bias"):
        W["self_attn.in_proj_" + leaf] = torch.cat([P[f"{p}self_attn.{q}_proj.{leaf}"] for q in "qkv"])
        W["self_attn.out_proj." + leaf] = P[f"{p}self_attn.o_proj.{leaf}"]
        W["linear1." + leaf], W["linear2." + leaf] = P[f"{p}mlp.up_proj.{leaf}"], P[f"{p}mlp.down_proj.{leaf}"]
        W["norm1." + leaf], W["norm2." + leaf] = P[f"{p}{norms[0]}.{leaf}"], P[f"{p}{norms[1]}.{leaf}"]
    return functional_call(layer, W, (x,))


def affine(P, name, x):
    return F.linear(x, P[name + ".weight"], P.get(name + ".bias"))


def layer_norm(P, name, x):
    return F.layer_norm(x, (D,), P[name + ".weight"], P[name + ".bias"], 1e-5)


def sinusoids(T):
    """Vaswani et al. 2017, section 3.5."""
    out = torch.zeros(T, D, dtype=torch.float64)
    for pos in range(T):
        for i in range(D // 2):
            out[pos, 2 * i] = math.sin(pos / 10000 ** (2 * i / D))
            out[pos, 2 * i + 1] = math.cos(pos / 10000 ** (2 * i / D))
    return out


def patches(P, images, p=2):
    """As torchvision's VisionTransformer does it: a convolution whose stride is its kernel, then rows."""
    w = P["model.embed_patches.weight"].view(D, images.shape[1], p, p)
    return F.conv2d(images, w, P["model.embed_patches.bias"], stride=p).flatten(2).transpose(1, 2)


def vit(P, images):
    x = patches(P, images)
    x = torch.cat([P["model.cls_token"].expand(len(x), 1, D), x], 1) + P["model.embed_positions.weight"][: x.shape[1] + 1]
    for l in range(LAYERS):
        x = encoder_layer(P, l, x, "gelu", True)
    return affine(P, "score", layer_norm(P, "model.norm", x)[:, 0])


def turned(x, places):
    """Axial rope of x[B, heads, T, 4n]: the first half of a head is complex numbers turned by the row, the second by the
    column; number k of a half of 2n features is feature k and, imaginary, feature k + n."""
    n = x.shape[-1] // 4
    speed = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / n)
    halves = []
    for half, place in zip(x.split(2 * n, -1), places.T):
        z = torch.complex(half[..., :n], half[..., n:]) * torch.exp(1j * place[:, None] * speed)
        halves += [z.real, z.imag]
    return torch.cat(halves, -1)


def turning_block(P, l, x, places, causal):
    """A block with norms first whose attention turns queries and keys by their place in the image."""
    p = f"model.layers.{l}."
    h = layer_norm(P, p + "input_layernorm", x)
    q, k, v = (affine(P, f"{p}self_attn.{n}_proj", h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for n in "qkv")
    s = turned(q, places) @ turned(k, places).transpose(2, 3) / math.sqrt(D // HEADS)
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    y = torch.softmax(s, -1) @ v
    x = x + affine(P, p + "self_attn.o_proj", y.transpose(1, 2).flatten(2))
    h = F.gelu(affine(P, p + "mlp.up_proj", layer_norm(P, p + "post_attention_layernorm", x)))
    return x + affine(P, p + "mlp.down_proj", h)


def grid(rows, columns):
    return torch.tensor([[r, c] for r in range(rows) for c in range(columns)], dtype=torch.float64)


def vit_places(P, images):
    x = patches(P, images)
    for l in range(LAYERS):
        x = turning_block(P, l, x, grid(3, 2), False)
    return affine(P, "score", layer_norm(P, "model.norm", x).mean(1))


def pixels(P, tokens):
    """Tokens of an image of 4 x 3 behind the token of its class, which is at (0, 0)."""
    x = P["model.embed_tokens.weight"][tokens][None]
    places = torch.cat([torch.zeros(1, 2, dtype=torch.float64), grid(4, 3)])[: len(tokens)]
    for l in range(LAYERS):
        x = turning_block(P, l, x, places, True)
    return F.linear(layer_norm(P, "model.norm", x)[0], P["model.embed_tokens.weight"])


def bert(P, tokens, act="gelu", waves=False, norm_first=False):
    """One sequence -> its last hidden rows."""
    x = P["model.embed_tokens.weight"][tokens]
    x = x + (sinusoids(len(tokens)) if waves else P["model.embed_positions.weight"][: len(tokens)])
    x = x[None]
    for l in range(LAYERS):
        x = encoder_layer(P, l, x, act, norm_first)
    return layer_norm(P, "model.norm", x)[0] if norm_first else x[0]


def lecture(P, tokens):
    """The notes: items are the columns of H, no mask, no scale, nothing added, nothing normed. A level is its heads'
    V H SoftMax((K H)^T Q H), concatenated and "fed into another (e.g. sigmoid) layer FF": one weight, here o_proj."""
    h = P["model.embed_tokens.weight"][tokens].T
    for l in range(LAYERS):
        p, W = f"model.layers.{l}.", lambda name: P[f"model.layers.{l}.{name}.weight"]
        add = lambda name: P[f"{p}{name}.bias"][:, None]
        outs = []
        for head in range(2):
            part = slice(head * D, (head + 1) * D)
            K, Q, V = (W(f"self_attn.{n}_proj")[part] @ h + add(f"self_attn.{n}_proj")[part] for n in "kqv")
            outs.append(V @ torch.softmax(K.T @ Q, dim=0))  # every column sums to 1
        h = torch.sigmoid(W("self_attn.o_proj") @ torch.cat(outs) + add("self_attn.o_proj"))
    return h.T


def each(f):
    return lambda P, rows: torch.cat([f(P, torch.tensor(r)) for r in rows])


def noisy_last(config):
    """NoiseFormer IV-B: the last token behind the last norm. The causal family with a head of classes for its own."""
    source = {k: v for k, v in config.items() if k not in ("task", "id2label", "pool")}
    cfg = oracle.Config({**source, "tie_word_embeddings": False})

    def one(P, tokens):
        W = {n: t for n, t in P.items() if not n.startswith("score")}
        W["lm_head.weight"] = P["score.weight"]
        return oracle.forward(cfg, W, tokens[None], oracle.Draw(SEED, 1.0, 0))[0, -1:]

    return each(one)


def cases():
    """-> {name: (config, function of parameters and input that makes logits, kind of targets)}"""
    texts = {**BASE, **TEXT, "task": "text-classification", "id2label": LABELS}
    images = {**BASE, "task": "image-classification", "id2label": LABELS, "input": IMAGE}
    noisy = {**texts, "pool": "last", "causal": True, "bias": False, "attention": {"kind": "symmetric"},
             "noise": {"scope": "head", "density": "gaussian"}}
    relu = {**BASE["mlp"], "activation": "relu"}
    head = lambda f, name="score": each(lambda P, t: affine(P, name, f(P, t)))
    return {
        "task_vit": ({**images, "pool": "first"}, vit, "sequence"),
        "task_vit_places": ({**images, "pool": "mean", "position": "rope2d", "max_position_embeddings": 6}, vit_places,
                            "sequence"),
        "task_post_mean": ({**texts, "pool": "mean", "position": "sinusoidal", "block": POST, "mlp": relu},
                           head(lambda P, t: bert(P, t, "relu", waves=True).mean(0, keepdim=True)), "sequence"),
        "task_pre_first": ({**texts, "pool": "first"}, head(lambda P, t: bert(P, t, norm_first=True)[:1]), "sequence"),
        "task_tags": ({**texts, "task": "token-classification", "block": POST}, head(bert, "classifier"), "row"),
        "task_mask": ({**BASE, **TEXT, "task": "fill-mask", "mask_token_id": 3, "block": POST},
                      each(lambda P, t: F.linear(bert(P, t), P["model.embed_tokens.weight"])), "masked"),
        "task_noise_last": (noisy, noisy_last(noisy), "sequence"),
        "task_lecture": ({**texts, "pool": "mean", "position": "none", "num_attention_heads": 2, "head_dim": D,
                          "attention": {"kind": "lecture"}, "block": {"norm": "none", "residual": False},
                          "mlp": {**BASE["mlp"], "activation": "sigmoid", "intermediate_size": 0}},
                         head(lambda P, t: lecture(P, t).mean(0, keepdim=True)), "sequence"),
        "task_pixels": ({**BASE, **TEXT, "causal": True, "position": "rope2d", "max_position_embeddings": 13,
                         "input": {"kind": "tokens", "image_size": [4, 3]}}, each(pixels), "row"),
    }


def start(config, rng):
    if config["attention"]["kind"] == "symmetric":
        shapes = {n: s for n, s in shapes_of(config).items() if ".k_proj" not in n and not n.endswith(".bias")}
        shapes.update({f"model.layers.{l}.self_attn.noise.{n}": (HEADS,) for l in range(LAYERS) for n in ("mu", "sigma")})
    else:
        shapes = shapes_of(config)
    P = {}
    for name, shape in shapes.items():
        z = rng.standard_normal(shape)
        if name.endswith("sigma"):
            z = np.sign(z) * (0.2 + 0.1 * np.abs(z))
        elif "norm" in name:
            z = 0.2 * z + name.endswith(".weight")
        elif name.endswith((".bias", ".mu")):
            z = 0.2 * z
        elif "embed_tokens" in name or "embed_positions" in name or "cls" in name:
            z = 0.4 * z
        else:
            z = z / math.sqrt(shape[-1])
        P[name] = torch.from_numpy(z.astype(np.float32)).double()
    return P


def kl_of(P):
    """KL(N(mu, sigma^2) || N(0, 1)) of every layer and head."""
    total = torch.zeros((), dtype=torch.float64)
    for n in P:
        if n.endswith(".sigma"):
            mu, v = P[n.replace("sigma", "mu")], P[n] ** 2 + 1e-12
            total = total + 0.5 * (mu**2 + v - torch.log(v) - 1).sum()
    return total


def build(name, config, forward, kind):
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    P = {n: t.requires_grad_(True) for n, t in start(config, rng).items()}
    settings = {"noise_seed": SEED, "noise_scale": 1.0, "noise_stream": 0, "alpha": 1e-3, "steps": STEPS, "lr": LR,
                "warmup": WARMUP, "weight_decay": DECAY, "betas": BETAS, "eps": EPS, "clip": CLIP}
    expected = {}
    if "vocab_size" in config:
        source = [rng.randint(0, VOCAB, n).tolist() for n in (9, 1, 6)]
        settings["tokens"] = source
    else:
        size = config["input"]["image_size"]
        source = torch.from_numpy(rng.standard_normal((3, 2, *size)).astype(np.float32)).double()
        expected["images"] = source
    logits = forward(P, source)
    targets = rng.randint(0, logits.shape[1], len(logits))
    weights = (rng.rand(len(logits)) < 0.4).astype(float) if kind == "masked" else np.ones(len(logits))
    settings["targets"] = targets.tolist()
    if kind == "masked":
        settings["weights"] = weights.tolist()
    groups = [{"params": [t for n, t in P.items() if (t.dim() >= 2) == decays], "weight_decay": DECAY * decays}
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    expected.update({n: t.detach().clone() for n, t in [("logits", logits), ("logits_stream0", logits)]})
    losses = []
    for step in range(STEPS):
        nll = F.cross_entropy(forward(P, source), torch.from_numpy(targets), reduction="none")
        w = torch.from_numpy(weights)
        loss = (w * nll).sum() / w.sum() + settings["alpha"] * kl_of(P)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            expected["loss"] = loss.detach().reshape(1)
            expected.update({"grad." + n: t.grad.clone() for n, t in P.items()})
            model = {n: t.detach().clone() for n, t in P.items()}
        nn.utils.clip_grad_norm_(P.values(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = LR * (step + 1) / WARMUP if step < WARMUP else LR
        optimizer.step()
    expected["losses"] = torch.tensor(losses)
    expected.update({"after." + n: t.detach() for n, t in P.items()})
    assert losses[-1] < losses[0], (name, losses)
    return model, settings, expected


def main():
    parser = argparse.ArgumentParser(description="golden cases of the tasks")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--out", default=os.path.join(here, "..", "golden"))
    parser.add_argument("--only", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, (config, forward, kind) in cases().items():
        if args.only and args.only != name:
            continue
        model, settings, expected = build(name, config, forward, kind)
        directory = os.path.join(args.out, name)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.json"), "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        with open(os.path.join(directory, "tokens.json"), "w") as f:
            f.write("{\n" + ",\n".join(f' "{k}": {json.dumps(v)}' for k, v in settings.items()) + "\n}\n")
        oracle.write_safetensors(os.path.join(directory, "model.safetensors"), model, {"program": "oracle", "step": "0"})
        oracle.write_safetensors(os.path.join(directory, "expected.safetensors"), expected)
        losses = expected["losses"]
        print(f"{name:20} loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
