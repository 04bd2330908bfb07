"""oracle.py selftest: known answers, invariants of the papers, gradients, parameter counts. In double, some seconds."""
import hashlib
import json
import math
import os
import tempfile
import zlib

import numpy as np
import torch
import torch.nn.functional as F

import make_golden as golden
import oracle as o

CASES = golden.cases()
INVARIANT = 1e-10  # double precision: what must be equal is equal to this


def model(name, **changes):
    """A golden case's configuration (with changes) and its perturbed parameters in double. None removes a key."""
    config = {**CASES[name][0], **changes}
    cfg = o.Config({k: v for k, v in config.items() if v is not None})
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    return cfg, {n: t.double() for n, t in golden.initial(cfg, rng).items()}


def tokens(cfg, B=2, T=11, seed=5):
    return torch.from_numpy(np.random.RandomState(seed).randint(0, cfg.vocab, (B, T)))


def gap(a, b):
    return float((a - b).abs().max())


def same(what, a, b, bound=INVARIANT):
    assert gap(a, b) <= bound, (what, gap(a, b))


def differ(what, a, b, bound=1e-3):
    assert gap(a, b) > bound, (what, gap(a, b))


def random_numbers():
    zero = o.philox(0, 0, 0, 0, 0)
    assert [int(w) for w in zero] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    bits = o.Q.view("<u4")
    assert [int(bits[m]) for m in (0, 1, 2048, 4095)] == [0x39206C99, 0x39F0A2E6, 0x3F2CB7F3, 0x4075E231]
    digest = hashlib.sha256(o.Q.tobytes()).hexdigest()
    assert digest == "e8eb444f05726695700203a75ec7530b3f40d467ad7dfe220ba549b4e3000556"
    row = o.gaussian(42, 0, 3, 2, 1, 8)[1, 0]
    told = [-0.65559465, -1.1417931, 0.85782117, 0.65142757, -1.1554046, -0.20381129, 0.18074545, 0.09361494]
    assert np.array_equal(row, np.array(told, dtype=np.float32)), row
    far = o.gaussian(9007199254740991, 7, 11, 6, 1001, 1002)[5, 1000, 1001]
    assert far == np.float32(-1.914612), far
    eps = o.gaussian(1, 1, 0, 8, 128, 128)
    assert abs(eps.mean()) < 0.01 and abs(eps.std() - 1) < 0.01
    rows = [o.gaussian(1, 1, 0, 1, 8, 8, row) for row in (0, 1)]
    assert not np.array_equal(*rows)


def files():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "x.safetensors")
        P = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([1.5])}
        o.write_safetensors(path, P, {"step": "3"})
        back, metadata = o.read_safetensors(path)
        assert metadata == {"format": "pt", "step": "3"} and all(torch.equal(P[n], back[n]) for n in P)
        with open(path, "rb") as f:
            assert (8 + int.from_bytes(f.read(8), "little")) % 64 == 0


def noise_facts():
    """papers 4.3: a constant mean cancels in softmax; no noise is symmetric attention; noise depends on its seed."""
    for name in ("symmetric_noise", "symmetric_noise_layer", "gqa_noise", "mla_noise", "symmetric_all"):
        cfg, P = model(name)
        x = tokens(cfg)
        base = o.forward(cfg, P, x, o.Draw(7))
        moved = {n: t + 3.0 if n.endswith("noise.mu") else t for n, t in P.items()}
        same(name + " mu", base, o.forward(cfg, moved, x, o.Draw(7)))
        flipped = {n: -t if n.endswith("noise.sigma") else t for n, t in P.items()}
        same(name + " -sigma, -scale", base, o.forward(cfg, flipped, x, o.Draw(7, -1.0)))
        differ(name + " seed", base, o.forward(cfg, P, x, o.Draw(8)))
        differ(name + " stream", base, o.forward(cfg, P, x, o.Draw(7, 1.0, 1)))
        quiet, _ = model(name, noise=None)
        same(name + " scale 0", o.forward(cfg, P, x, o.Draw(7, 0.0)), o.forward(quiet, P, x))
        one = o.forward(cfg, P, x, o.Draw(7, 1.0, 1, True))
        same(name + " row 0 of per-sequence", one[0], o.forward(cfg, P, x, o.Draw(7, 1.0, 1))[0])
        differ(name + " row 1 of per-sequence", one[1], o.forward(cfg, P, x, o.Draw(7, 1.0, 1))[1])
    for name in ("symmetric_mixture_head", "symmetric_conditioned_head"):  # here the mean matters
        cfg, P = model(name)
        spread = lambda n, t: t + torch.arange(t.numel()).view(t.shape) if "noise.mu" in n or "up.weight" in n else t
        moved = {n: spread(n, t) for n, t in P.items()}
        differ(name + " mu", o.forward(cfg, P, x, o.Draw(7)), o.forward(cfg, moved, x, o.Draw(7)))
    cfg, P = model("symmetric_mixture_head")  # components that are all alike are one Gaussian
    alike = {n: t[:, :1].expand_as(t) if ".noise." in n else t for n, t in P.items()}
    plain, _ = model("symmetric_noise")
    single = {n: t[:, 0] if ".noise." in n else t for n, t in P.items() if "noise.weight" not in n}
    same("mixture of equals", o.forward(cfg, alike, x, o.Draw(7)), o.forward(plain, single, x, o.Draw(7)))
    drawn = o.component_uniform(3, 1, 0, 4, 64, 64)  # the component frequencies follow the weights
    assert abs((drawn < 0.3).mean() - 0.3) < 0.01


def causality():
    """Token j changes no output before j, and the outputs of a prefix are the prefix of the outputs (cached decode)."""
    for name in CASES:
        cfg, P = model(name)
        x = tokens(cfg)
        full = o.forward(cfg, P, x, o.Draw(11))
        if not cfg.causal:
            y = x.clone()
            y[:, 10] = (y[:, 10] + 1) % cfg.vocab
            differ(name + " sees the last token", full[:, :1], o.forward(cfg, P, y, o.Draw(11))[:, :1])
            continue
        y = x.clone()
        y[:, 6] = (y[:, 6] + 1) % cfg.vocab
        other = o.forward(cfg, P, y, o.Draw(11))
        same(name + " causal", full[:, :6], other[:, :6])
        differ(name + " reacts", full[:, 6:], other[:, 6:])
        same(name + " prefix", full[:, :9], o.forward(cfg, P, x[:, :9], o.Draw(11)))


def kinds():
    """One kind is another with special weights."""
    cfg, P = model("mha_rope", bias=True)
    x = tokens(cfg)
    p = "model.layers.{}.self_attn."
    tied_keys = {n: P[n.replace("k_proj", "q_proj")] if "k_proj" in n else t for n, t in P.items()}
    symmetric, _ = model("symmetric_rope")
    without_k = {n: t for n, t in P.items() if "k_proj" not in n}
    same("symmetric = mha with K = Q", o.forward(cfg, tied_keys, x), o.forward(symmetric, without_k, x))
    pairwise, _ = model("pairwise_rope", num_hidden_layers=2)
    eye = torch.eye(cfg.head_dim).double().expand(cfg.heads, -1, -1)
    pairs = {**without_k, **{p.format(l) + "pair.weight": eye for l in range(2)}}
    same("pairwise with F = 1", o.forward(symmetric, without_k, x), o.forward(pairwise, pairs, x))
    gqa, G = model("gqa_plain")  # repeat the kv heads in the weights: plain mha
    wide, _ = model("gqa_plain", attention={"kind": "mha"}, num_key_value_heads=4)
    D = gqa.head_dim
    repeat = lambda t: t.view(-1, D, gqa.d).repeat_interleave(2, 0).reshape(-1, gqa.d)
    W = {n: repeat(t) if "k_proj" in n or "v_proj" in n else t for n, t in G.items()}
    same("gqa = mha with repeated heads", o.forward(gqa, G, x), o.forward(wide, W, x))
    # symmetric scores stay symmetric under rope
    q, k, _ = o.project(symmetric, without_k, p.format(0), torch.randn(1, 7, symmetric.d).double())
    s = torch.einsum("bihd,bjhd->bhij", q, k)
    same("symmetric scores", s, s.transpose(2, 3))


def absorbed_mla():
    """Decode without keys: q~ = qn W_UK, s = q~ . c + qr . kr, u = sum p c, o = W_UV u (papers 1.3)."""
    cfg, P = model("mla_plain")
    p, a, H = "model.layers.0.self_attn.", cfg.attention, cfg.heads
    dn, dr, dv, dc = a["qk_nope_head_dim"], a["qk_rope_head_dim"], a["v_head_dim"], a["kv_lora_rank"]
    x = torch.randn(1, 9, cfg.d, generator=torch.Generator().manual_seed(1)).double()
    q, _, _ = o.project(cfg, P, p, x)
    c, kr = o.linear(cfg, P, p + "kv_a_proj_with_mqa", x).split([dc, dr], -1)
    c, kr = o.rmsnorm(cfg, P, p + "kv_a_layernorm", c), o.rope(cfg, kr[:, :, None, :])[:, :, 0]
    W = P[p + "kv_b_proj.weight"].view(H, dn + dv, dc)
    latent = torch.einsum("bihn,hnc->bihc", q[..., :dn], W[:, :dn])
    s = torch.einsum("bihc,bjc->bhij", latent, c) + torch.einsum("bihr,bjr->bhij", q[..., dn:], kr)
    s = (s / math.sqrt(dn + dr)).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf)
    u = torch.einsum("bhij,bjc->bihc", torch.softmax(s, -1), c)
    out = torch.einsum("bihc,hvc->bihv", u, W[:, dn:]).reshape(1, 9, H * dv) @ P[p + "o_proj.weight"].T
    same("absorbed MLA", out, o.attention(cfg, P, p, 0, x, o.Draw(), []))


def factored_tpa():
    """s = (1 / (Rq R)) sum a_q a_k <b_q, b_k> without ever forming K (papers 1.4)."""
    cfg, P = model("tpa_plain")
    p, a = "model.layers.0.self_attn.", cfg.attention
    x = torch.randn(1, 9, cfg.d, generator=torch.Generator().manual_seed(2)).double()
    q, k, _ = o.project(cfg, P, p, x)
    part = lambda n, *shape: o.linear(cfg, P, p + n, x).view(1, 9, *shape)
    rq, r, H, D = a["q_rank"], a["rank"], cfg.heads, cfg.head_dim
    bq, bk = o.rope(cfg, part("b_q_proj", rq, D)), o.rope(cfg, part("b_k_proj", r, D))
    s = torch.einsum("bihr,bjhs,bird,bjsd->bhij", part("a_q_proj", H, rq), part("a_k_proj", H, r), bq, bk) / (rq * r)
    same("factored TPA", s, torch.einsum("bihd,bjhd->bhij", q, k))


def lecture_notes():
    """The notes' own equation: items are columns, H in R^(D x K), and head h is
    V_h H SoftMax((K_h H)^T Q_h H), SoftMax over the rows of each column, so that every column sums to 1."""
    cfg, P = model("lecture_notes")
    p, D = "model.layers.0.self_attn.", cfg.d
    x = torch.randn(1, 7, D, generator=torch.Generator().manual_seed(3)).double()
    H, heads = x[0].T, []
    for h in range(cfg.heads):
        Q, K, V = (P[p + n + "_proj.weight"][h * D : (h + 1) * D] for n in "qkv")
        A = torch.softmax((K @ H).T @ (Q @ H), dim=0)
        same("columns", A.sum(0), torch.ones(7).double())
        heads.append(V @ H @ A)
    told = (P[p + "o_proj.weight"] @ torch.cat(heads, 0)).T
    same("lecture notes", told[None], o.attention(cfg, P, p, 0, x, o.Draw(), []))


def differential_paper():
    """DiffAttn(X) = (softmax(Q1 K1^T / sqrt d) - lambda softmax(Q2 K2^T / sqrt d)) V, per head and then
    Concat((1 - lambda_init) RMSNorm(head)) W_O (Ye et al. 2024, equations 1 to 3)."""
    cfg, P = model("differential_learned_bias", bias=False)
    x = torch.randn(1, 9, cfg.d, generator=torch.Generator().manual_seed(4)).double()[0]
    d, mask = cfg.head_dim, torch.full((9, 9), -math.inf).double().triu(1)
    for layer, told in ((0, 0.2), (1, 0.8 - 0.6 * math.exp(-0.3))):
        p = f"model.layers.{layer}.self_attn."
        q1, k1, q2, k2 = (P[p + "lambda_" + n] for n in ("q1", "k1", "q2", "k2"))
        lam = math.exp(float(q1 @ k1)) - math.exp(float(q2 @ k2)) + told
        heads = []
        for h in range(cfg.heads):
            WQ, WK, WV = (P[p + n + "_proj.weight"][2 * d * h : 2 * d * (h + 1)].T for n in "qkv")
            Q1, Q2 = (x @ WQ).split(d, -1)
            K1, K2 = (x @ WK).split(d, -1)
            A1, A2 = (torch.softmax(Q @ K.T / math.sqrt(d) + mask, -1) for Q, K in ((Q1, K1), (Q2, K2)))
            y = (A1 - lam * A2) @ (x @ WV)
            rms = y.pow(2).mean(-1, keepdim=True).add(1e-5).sqrt()
            heads.append((1 - told) * (y / rms * P[p + "head_norm.weight"]))
        out = torch.cat(heads, -1) @ P[p + "o_proj.weight"].T
        same(f"differential layer {layer}", out[None], o.attention(cfg, P, p, layer, x[None], o.Draw(), []))


def sas_facts():
    """papers 3.9."""
    cfg, P = model("mha_sas_kernel1")
    x = tokens(cfg)
    p = "model.layers.0.self_attn.sas.q."
    y = torch.randn(1, 5, cfg.heads, cfg.head_dim).double()
    rows = y.transpose(2, 3)  # kernel 1: an MLP over the head axis
    y1 = rows @ P[p + "head_in.weight"][:, :, 0].T + P[p + "head_in.bias"]
    y2 = y1 + F.relu(y1) @ P[p + "head_out.weight"][:, :, 0].T + P[p + "head_out.bias"]
    z1 = y2.transpose(2, 3) @ P[p + "feature_in.weight"].T + P[p + "feature_in.bias"]
    z2 = z1 + F.relu(z1) @ P[p + "feature_out.weight"].T + P[p + "feature_out.bias"]
    same("kernel 1 = MLP", z2, o.sas_expand(cfg, P, p, y))
    # the convolution, term by term
    cfg5, P5 = model("mha_sas_kernel5")
    W, b, half = P5[p + "head_in.weight"], P5[p + "head_in.bias"], 2
    told = torch.zeros(1, 5, cfg5.sas_heads, cfg5.head_dim).double() + b[:, None]
    for l in range(cfg5.head_dim):
        for u in range(5):
            if 0 <= l + u - half < cfg5.head_dim:
                told[..., l] += y[..., l + u - half] @ W[:, :, u].T
    got = F.conv1d(y.reshape(5, cfg5.heads, cfg5.head_dim), W, b, padding=half)
    same("convolution", told[0], got)
    # tiled identity, W_in = [I | 0]: the base attention with scale 1 / sqrt(Dx), all groups equal
    plain, _ = model("mha_sas_kernel1", sas=None)
    H, D, Hx, Dx = cfg.heads, cfg.head_dim, cfg.sas_heads, cfg.sas_dim
    I = {n: torch.zeros_like(t) if ".sas." in n else t for n, t in P.items()}
    for n in I:
        if n.endswith("head_in.weight"):
            I[n] = torch.eye(H).repeat(Hx // H, 1)[:, :, None].double()
        if n.endswith("feature_in.weight"):
            I[n] = torch.eye(Dx, D).double()
    shrink = math.sqrt(D / Dx)
    base = {n: t * shrink if "q_proj" in n else t for n, t in P.items() if ".sas." not in n}
    same("identity SAS = mha", o.forward(cfg, I, x), o.forward(plain, base, x))
    # aggregation: average then project = project every group then average
    out = torch.randn(1, 5, Hx * D).double()
    W, b = P["model.layers.0.self_attn.o_proj.weight"], P["model.layers.0.self_attn.o_proj.bias"]
    groups = out.view(1, 5, Hx // H, H * D)
    same("PEAA", groups.mean(2) @ W.T + b, torch.stack([groups[:, :, g] @ W.T + b for g in range(Hx // H)]).mean(0))
    # grouped heads: a kernel-1 convolution on repeated heads is one on the G heads with summed weights
    g, G = model("gqa_sas", sas=golden.sas("gqa", kernel=1))
    v = torch.randn(1, 5, g.kv_heads, g.head_dim).double()
    p = "model.layers.0.self_attn.sas.k."
    W = G[p + "head_in.weight"][:, :, 0]
    folded = torch.einsum("og,btgd->btod", W.view(g.sas_heads, g.kv_heads, -1).sum(2), v)
    same("folded gqa", folded, torch.einsum("oh,bthd->btod", W, v.repeat_interleave(2, 2)))


def noble_facts():
    """papers 5.5."""
    cfg, P = model("mha_noble")
    x = tokens(cfg)
    bare, _ = model("mha_noble", noble=None)
    off = {n: torch.zeros_like(t) if "noble.up" in n else t for n, t in P.items()}
    same("up = 0", o.forward(cfg, off, x), o.forward(bare, P, x))
    differ("up != 0", o.forward(cfg, P, x), o.forward(bare, P, x))
    name = "model.layers.0.mlp.up_proj"
    branch = o.noble_branch(cfg, P, name, 10 * torch.randn(50, cfg.d).double())
    assert (branch.abs() <= P[name + ".noble.up.weight"].abs().sum(1) + 1e-12).all()
    # Three layers, term by term: out_i = sum_j U_ij cos(f3_j sum_k M2_jk cos(f2_k sum_l M1_kl cos(f1_l h_l + p1_l) + p2_k) + p3_j)
    cfg, P = model("mha_noble_cosnet3")
    t = {n: P["model.layers.0.mlp.up_proj.noble." + n] for n in (
        "down.weight", "up.weight", "mix.weight", "mix2.weight", "freq_in", "phase_in", "freq_mid", "phase_mid",
        "freq_out", "phase_out")}
    x, r = torch.randn(cfg.d).double(), range(cfg.rank)
    h = [math.fsum(float(w * v) for w, v in zip(row, x)) for row in t["down.weight"]]
    for mix, place in (("", "in"), ("mix.weight", "mid"), ("mix2.weight", "out")):
        if mix:
            h = [math.fsum(float(t[mix][j, k]) * h[k] for k in r) for j in r]
        h = [math.cos(float(t["freq_" + place][j]) * h[j] + float(t["phase_" + place][j])) for j in r]
    told = torch.tensor([math.fsum(float(row[j]) * h[j] for j in r) for row in t["up.weight"]]).double()
    same("three cosines", o.noble_branch(cfg, P, "model.layers.0.mlp.up_proj", x[None])[0], told, 1e-6)
    shapes = o.param_shapes(o.Config({**CASES["mha_plain"][0], "hidden_size": 1024, "num_attention_heads": 8,
                                      "num_key_value_heads": 8, "head_dim": 128, "noble": {"rank": 64}}))
    stem = "model.layers.0.self_attn.q_proj.noble."
    up, mix = (o.lr_multiplier(stem + n, shapes) for n in ("up.weight", "mix.weight"))
    assert abs(up - 5.278) < 1e-3 and abs(mix - 3.482) < 1e-3


def spans():
    """What a noise that lasts may be: constant along a row of scores it cancels."""
    cfg, P = model("symmetric_noise_key_head")
    x, s = tokens(cfg), "model.layers.0.self_attn.noise."
    key = o.gaussian(7, 3, 1, 2, 1, 9)
    assert (o.Draw(7, 1.0, 3).arrays(o.gaussian, cfg, 1, 1, 9, torch.float64).numpy()[0] == key).all()
    logits = o.forward(cfg, P, x, o.Draw(7))
    same("mean of span key", o.forward(cfg, {**P, s + "mu": P[s + "mu"] + 3}, x, o.Draw(7)), logits)
    differ("seed of span key", o.forward(cfg, P, x, o.Draw(8)), logits)
    # The same as one more feature of the key that the query reads with sqrt(D), for then q . k / sqrt(D) gains it.
    q, k, eps = torch.randn(5, 4).double(), torch.randn(5, 4).double(), torch.randn(5).double()
    more = torch.cat([q, 2 * torch.ones(5, 1)], 1) @ torch.cat([k, eps[:, None]], 1).T / 2
    same("key as a feature", torch.softmax(more, -1), torch.softmax(q @ k.T / 2 + eps, -1))
    code = torch.randn(4).double()
    differ("code on the queries", torch.softmax((q + code) @ k.T, -1), torch.softmax(q @ k.T, -1))
    same("code on the keys", torch.softmax(q @ (k + code).T, -1), torch.softmax(q @ k.T, -1))
    cfg, P = model("symmetric_noise_sequence_head")
    logits = o.forward(cfg, P, x, o.Draw(7))
    differ("seed of span sequence", o.forward(cfg, P, x, o.Draw(8)), logits)
    off = {n: torch.zeros_like(t) if "sigma" in n else t for n, t in P.items()}
    plain, _ = model("symmetric_noise_sequence_head", noise=None)
    same("sigma 0", o.forward(cfg, off, x, o.Draw(7)), o.forward(plain, P, x))


def finite_differences():
    """Directional derivative of the loss against the gradient, for every case that is differentiable."""
    for name in CASES:
        cfg, P = model(name)
        if cfg.noise and cfg.density == "mixture":
            continue  # straight-through on purpose; checked against its formulas below
        batch, draw, alpha, h = tokens(cfg), o.Draw(21, 1.0, 1, True), 1e-2, 1e-6
        _, _, _, grads = o.gradients(cfg, P, batch, draw, alpha)
        for trial in range(2):
            g = torch.Generator().manual_seed(trial)
            v = {n: torch.randn(t.shape, generator=g, dtype=torch.float64) for n, t in P.items()}
            with torch.no_grad():
                at = lambda e: float(o.loss(cfg, {n: t + e * v[n] for n, t in P.items()}, batch, draw, alpha)[0])
                plus, minus = at(h), at(-h)
            slope, told = (plus - minus) / (2 * h), sum(float((grads[n] * v[n]).sum()) for n in P)
            assert abs(slope - told) <= 1e-5 * max(1.0, abs(told)), (name, slope, told)


def noise_gradients():
    """Sections 4 and 5, formula by formula, from dS_ij (the gradient at the added noise)."""
    alpha = 1e-2
    for name in ("symmetric_noise", "symmetric_noise_layer", "symmetric_mixture_head", "symmetric_mixture_layer",
                 "mha_mixture_per_sequence"):
        cfg, P = model(name)
        batch = tokens(cfg, T=12)
        per_sequence = "per_sequence" in name
        draw = o.Draw(1234567890123, 1.0, 3, per_sequence)
        P = {n: t.requires_grad_(True) for n, t in P.items()}
        trace = {}
        o.loss(cfg, P, batch, draw, alpha, trace)[0].backward()
        for l in range(cfg.layers):
            n = f"model.layers.{l}.self_attn.noise."
            dS = trace[l].grad  # [1 or B, n, T, T]
            mu, sigma = (P[n + v].detach() for v in ("mu", "sigma"))
            eps = draw.arrays(o.gaussian, cfg, l, 2, 11, torch.float64)
            if cfg.density == "gaussian":
                same(name + " dmu", P[n + "mu"].grad, dS.sum((0, 2, 3)) + alpha * mu)
                dsigma = (dS * eps).sum((0, 2, 3)) + alpha * (sigma - 1 / sigma)
                same(name + " dsigma", P[n + "sigma"].grad, dsigma, 1e-9)
                continue
            u = draw.arrays(o.component_uniform, cfg, l, 2, 11, torch.float64)
            p = torch.softmax(P[n + "weight"].detach(), -1)
            kl = 0.5 * (mu**2 + sigma**2 - torch.log(sigma**2) - 1)
            for h in range(mu.shape[0]):
                dmu, dsigma, dweight = torch.zeros(3, 3).double()
                for b in range(dS.shape[0]):
                    for i in range(11):
                        for j in range(i + 1):
                            e, d = eps[b, h, i, j], dS[b, h, i, j]
                            total, c = 0.0, 2
                            for k in range(3):
                                total += float(p[h, k])
                                if total > float(u[b, h, i, j]):
                                    c = k
                                    break
                            dmu[c] += d
                            dsigma[c] += d * e
                            values = mu[h] + sigma[h] * e
                            dweight += d * p[h] * (values - (p[h] * values).sum())
                            same(name + " value", trace[l].detach()[b, h, i, j], mu[h, c] + sigma[h, c] * e)
                dweight += alpha * p[h] * (kl[h] - (p[h] * kl[h]).sum())
                same(name + " dmu", P[n + "mu"].grad[h], dmu + alpha * p[h] * mu[h])
                same(name + " dsigma", P[n + "sigma"].grad[h], dsigma + alpha * p[h] * (sigma[h] - 1 / sigma[h]), 1e-9)
                same(name + " dweight", P[n + "weight"].grad[h], dweight)


def optimiser():
    """Against torch.optim.AdamW with one parameter group a tensor and torch's clipping."""
    cfg, P = model("symmetric_all")
    batch, alpha, lr = tokens(cfg), 1e-3, 3e-3
    ours, losses = o.train(cfg, P, batch, 4, 99, alpha=alpha, lr=lr)
    shapes = o.param_shapes(cfg)
    theirs = {n: t.clone().requires_grad_(True) for n, t in P.items()}
    groups = [{"params": [t], "base": lr * o.lr_multiplier(n, shapes), "lr": 0.0,
               "weight_decay": 0.1 if o.decayed(n, shapes[n]) else 0.0} for n, t in theirs.items()]
    adam = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for s in range(4):
        for group in adam.param_groups:
            group["lr"] = group["base"] * min(1.0, (s + 1) / 3)
        adam.zero_grad()
        total, _, _ = o.loss(cfg, theirs, batch, o.Draw(99, 1.0, 1 + s), alpha)
        assert abs(float(total) - losses[s]) < 1e-6
        total.backward()
        torch.nn.utils.clip_grad_norm_(theirs.values(), 1.0)
        adam.step()
    for n in P:
        same("adamw " + n, ours[n], theirs[n].detach(), 1e-6)
    decays = {n for n in shapes if o.decayed(n, shapes[n])}
    assert "model.layers.0.self_attn.sas.q.head_in.weight" in decays
    assert not any(".noise." in n or "norm" in n for n in decays)


def counts():
    """The papers' parameter counts (papers 1.5, 3.7, 4.7, 5.4); shapes only, nothing is allocated."""
    gpt2 = {"vocab_size": 50304, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "head_dim": 64,
            "max_position_embeddings": 1024, "mlp": {"intermediate_size": 3072}, "attention": {"kind": "mha"}}
    shapes = lambda **changes: o.param_shapes(o.Config({**gpt2, **changes}))
    total = lambda **changes: o.count(shapes(**changes)) - o.count(shapes(**changes), "embed_positions")
    kind = lambda name, **more: {"attention": {"kind": name, **more}}
    base = total()
    assert base == 123_587_328
    assert base - total(**kind("symmetric")) == 7_077_888
    assert total(**kind("pairwise")) - total(**kind("symmetric")) == 12 * 12 * 64 * 64
    # half the heads, each of two maps: mha's count but for lambda and the norm of a head
    assert total(num_attention_heads=6, **kind("differential")) - base == 12 * (4 * 64 + 2 * 64)
    assert total(bias=True, **kind("mha")) - total(bias=True, **kind("symmetric")) == 12 * (768**2 + 768)
    for scope, told in (("layer", 2 * 12), ("head", 2 * 12 * 12)):
        assert total(noise={"scope": scope, "density": "gaussian"}) - base == told
    attention = lambda **changes: o.count(shapes(position="rope", norm="rmsnorm", **changes), "layers.0.self_attn.")
    assert attention() == 2_359_296
    assert attention(num_attention_heads=23, num_key_value_heads=1, **kind("gqa")) == 2_359_296
    assert attention(num_attention_heads=22, num_key_value_heads=2, **kind("gqa")) == 2_359_296
    assert attention(num_attention_heads=13, **kind("mla", q_lora_rank=512, kv_lora_rank=256, qk_nope_head_dim=64,
                                                    qk_rope_head_dim=32, v_head_dim=64)) == 2_319_104
    for heads, told in ((36, 2_537_472), (34, 2_423_808)):
        assert attention(num_attention_heads=heads, **kind("tpa", q_rank=6, rank=2)) == told
    for sizes, heads, head_dim, told in (
        ({}, 36, 96, (438_048, 562_464, 686_880, 811_296)),
        ({"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}, 48, 96,
         (974_592, 1_416_960, 1_859_328, 2_301_696)),
        ({"hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32, "head_dim": 80}, 96, 120,
         (2_749_440,)),
    ):
        for kernel, extra in zip((1, 3, 5, 7), told):
            sas = {"heads": heads, "head_dim": head_dim, "kernel": kernel}
            assert total(sas=sas, **sizes) - total(**sizes) == extra, (sizes, kernel)
    for d, L, h, heads, millions, percent in (
        (1024, 12, 2752, 8, 254.7, (5.70, 11.63, 24.19)), (2048, 24, 5504, 16, 1420, (4.04, 8.17, 16.68))
    ):
        host = {"vocab_size": 50257, "hidden_size": d, "num_hidden_layers": L, "num_attention_heads": heads,
                "head_dim": 128, "position": "rope", "norm": "rmsnorm", "tie_word_embeddings": False,
                "mlp": {"activation": "gelu", "gated": True, "intermediate_size": h}}
        plain = total(**host)
        assert abs(plain / 1e6 - millions) < 0.0005 * millions, plain
        for rank, told in zip((64, 128, 256), percent):
            extra = total(noble={"rank": rank}, **host) - plain
            assert abs(100 * extra / plain - told) < 0.005, (d, rank, 100 * extra / plain)
            linears = o.block_linears(o.Config({**gpt2, **host}))
            assert extra == L * sum(rank * (n_in + n_out) + rank**2 + 4 * rank for _, n_out, n_in in linears)


def committed_cases():
    """The files on disk are what this code writes today."""
    directory = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
    for name, (config, _) in CASES.items():
        path = os.path.join(directory, name)
        if not os.path.isdir(path):
            continue
        with open(os.path.join(path, "tokens.json")) as f:
            t = json.load(f)
        with open(os.path.join(path, "config.json")) as f:
            assert json.load(f) == config, name
        cfg, P = o.load(path, torch.float64)
        expected, _ = o.read_safetensors(os.path.join(path, "expected.safetensors"))
        batch = torch.tensor(t["tokens"])
        draw = o.Draw(t["noise_seed"], t["noise_scale"], t["noise_stream"], t["noise_per_sequence"])
        total, _, logits = o.loss(cfg, P, batch, draw, t["alpha"])
        same(name + " logits", logits.reshape(expected["logits"].shape), expected["logits"], 1e-5)
        same(name + " loss", total, expected["loss"], 1e-5)


TESTS = (random_numbers, files, noise_facts, spans, causality, kinds, absorbed_mla, factored_tpa, lecture_notes, differential_paper,
         sas_facts, noble_facts,
         finite_differences, noise_gradients, optimiser, counts, committed_cases)


def run():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for test in TESTS:
        test()
        print("ok", test.__name__, flush=True)
    return 0
