"""places.py RUNS OUT: where a learned code may enter, measured as codes.py measures, in PyTorch, which can be changed in
four lines: OUT/places.csv. The plan is that of codes.sh: symmetric attention, width 128, 3 layers, 400 steps of 8 windows
of 128 of three books, and from there 200 steps of 32 windows of 32, once for each arm. A window learns under the likeliest
of COMPONENTS components; one in ten has none. The arms' codes, of each layer:

    plain      none
    residual   mu_z [d] is added to the rows that enter it
    query      mu_z [H, D] is added to the queries
    slot       a key and a value, mu_z [H, 2 D], that every row attends to stand beside those of the text, at no position
    branch     none, but both linears of the feed-forward layer have a branch of NOBLE of rank RANK
    noble      mu_z [2, RANK] is added in these branches before the cosines

`price`, `gain` and so on are held against `plain`, of `noble` against `branch`. The judge is of another seed, with queries of
its own. RUNS has train.ids and held_out.ids, uint16, of tokens below 1,024, a book behind the other; SEEDS, THREADS and ARMS
by the environment. Needs Debian's python3-torch and python3-numpy; arms that are done are kept in RUNS."""
import json
import math
import os
import sys

import numpy
import torch
import torch.nn.functional as F

import ask
import codes
import measure

VOCAB, WIDTH, LAYERS, HEADS, HIDDEN, WINDOW = 1024, 128, 3, 4, 344, 128
COMPONENTS, RANK, PROMPTS, BEGINNING, TOKENS, PIECES, HELD_OUT = 8, 16, 36, 12, 64, 12, 32768
ARMS = ("plain", "residual", "query", "slot", "branch", "noble")
HELD_AGAINST = {"noble": "branch"}


def rotate(x, first):
    """RoPE of [.., T, D], whose first row is at position `first`."""
    half, n = x.shape[-1] // 2, x.shape[-2]
    angle = (first + torch.arange(n))[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


def parameter(*shape, std=0.02):
    return torch.nn.Parameter(std * torch.randn(*shape))


class Branch(torch.nn.Module):
    """U cos(w * M cos(V x + mu_z) + phi), at first 0, for U is."""

    def __init__(self, into, out):
        super().__init__()
        self.down, self.mix = parameter(RANK, into, std=into**-0.5), parameter(RANK, RANK, std=RANK**-0.5)
        self.up = torch.nn.Parameter(torch.zeros(out, RANK))
        self.frequency, self.phase = torch.nn.Parameter(torch.ones(RANK)), torch.nn.Parameter(0.1 * torch.randn(RANK))

    def forward(self, x, code):
        inner = x @ self.down.T + (0 if code is None else code[:, None])
        return torch.cos(self.frequency * (torch.cos(inner) @ self.mix.T) + self.phase) @ self.up.T


class Layer(torch.nn.Module):
    def __init__(self, arm, symmetric):
        super().__init__()
        self.norms = torch.nn.Parameter(torch.ones(2, WIDTH))
        self.q, self.v, self.o = (parameter(WIDTH, WIDTH) for _ in range(3))
        self.k = None if symmetric else parameter(WIDTH, WIDTH)
        self.up, self.down = parameter(2 * HIDDEN, WIDTH), parameter(WIDTH, HIDDEN)
        self.place(arm)

    def place(self, arm):
        self.arm, width = arm, {"residual": WIDTH, "query": WIDTH, "slot": 2 * WIDTH, "noble": 2 * RANK}.get(arm)
        self.mu = parameter(COMPONENTS, width, std=0.05 if arm == "residual" else 0.3) if width else None
        branches = arm in ("branch", "noble")
        self.branches = torch.nn.ModuleList([Branch(WIDTH, 2 * HIDDEN), Branch(HIDDEN, WIDTH)]) if branches else None
        self.sink = torch.nn.Parameter(torch.full((HEADS,), -2.0)) if arm == "slot" else None

    def norm(self, x, i):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.norms[i]

    def attend(self, x, code, cache):
        split = lambda y: y.view(*y.shape[:2], HEADS, -1).transpose(1, 2)
        q, v = x @ self.q.T, split(x @ self.v.T)
        k = split(q if self.k is None else x @ self.k.T)
        q = split(q + code[:, None] if code is not None and self.arm == "query" else q)
        before, scale = cache["k"].shape[2] if cache else 0, (WIDTH // HEADS) ** -0.5
        k = rotate(k, before)
        if before:
            k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
        if cache is not None:
            cache |= {"k": k, "v": v}
        n = k.shape[2]
        scores = scale * rotate(q, before) @ k.transpose(-1, -2)
        scores = scores.masked_fill(torch.ones(n - before, n, dtype=torch.bool).triu(before + 1), -math.inf)
        if self.arm == "slot" and code is not None:
            key, value = code.view(-1, HEADS, 2, WIDTH // HEADS).unbind(2)
            own = scale * torch.einsum("bhtd,bhd->bht", q, key) + self.sink[:, None]
            p = torch.cat((scores, own[..., None]), -1).softmax(-1)
            y = p[..., :n] @ v + p[..., n:] * value[:, :, None]
        else:
            y = scores.softmax(-1) @ v
        return y.transpose(1, 2).reshape(x.shape) @ self.o.T

    def feed(self, x, code):
        if self.branches is None:
            branch = lambda i, y: 0
        else:
            branch = lambda i, y: self.branches[i](y, None if code is None else code[:, i * RANK : (i + 1) * RANK])
        gate, up = (x @ self.up.T + branch(0, x)).chunk(2, -1)
        hidden = F.silu(gate) * up
        return hidden @ self.down.T + branch(1, hidden)

    def forward(self, x, z, cache=None):
        """z [B]: its components; -1: none. cache: of the rows before, {} at first."""
        code = None
        if self.mu is not None:
            code = self.mu[z.clamp(min=0)] * (z >= 0)[:, None]
        if code is not None and self.arm == "residual":
            x = x + code[:, None]
        x = x + self.attend(self.norm(x, 0), code, cache)
        return x + self.feed(self.norm(x, 1), code if self.arm == "noble" else None)


class Network(torch.nn.Module):
    def __init__(self, arm="plain", symmetric=True):
        super().__init__()
        self.embed, self.last = parameter(VOCAB, WIDTH), torch.nn.Parameter(torch.ones(WIDTH))
        self.layers = torch.nn.ModuleList(Layer(arm, symmetric) for _ in range(LAYERS))

    def forward(self, tokens, z, caches=(None,) * LAYERS):
        x = self.embed[tokens]
        for layer, cache in zip(self.layers, caches):
            x = layer(x, z, cache)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.last @ self.embed.T

    def nats(self, windows, z):
        """[B, T] of the tokens behind the first."""
        logits = self(windows[:, :-1], z)
        return F.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")

    def has_code(self):
        return self.layers[0].mu is not None

    def under_all(self, windows, batch=32):
        """Sums of nats [B, COMPONENTS], or [B, 1] without any."""
        n = COMPONENTS if self.has_code() else 1
        with torch.no_grad():
            one = lambda some: self.nats(some.repeat_interleave(n, 0), torch.arange(n).repeat(len(some))).sum(1).view(-1, n)
            return torch.cat([one(some) for some in windows.split(batch)])


# ---- training ----


def train(net, ids, steps, batch, window, rate, seed, code):
    draws = torch.Generator().manual_seed(seed)
    matrices = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() < 2]
    adam = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], rate,
                             betas=(0.9, 0.95))
    for step in range(steps):
        warm = min(1, (step + 1) / max(1, steps // 10))
        for group in adam.param_groups:
            group["lr"] = rate * warm * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
        at = torch.randint(0, len(ids) - window - 1, (batch,), generator=draws)
        windows = torch.stack([ids[i : i + window + 1] for i in at])
        z = torch.full((batch,), -1)
        if code:
            z = net.under_all(windows).argmin(1)
            z[torch.rand(batch, generator=draws) < 0.1] = -1
        loss = net.nats(windows, z).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1)
        adam.step()
    return net


def kept(path, make, net):
    """The network of the file, or the made one, which is put there."""
    if os.path.exists(path):
        net.load_state_dict(torch.load(path))
        return net
    net = make(net)
    torch.save(net.state_dict(), path + ".new")
    os.replace(path + ".new", path)
    return net


def arm_of(base, arm, seed, runs, ids):
    torch.manual_seed(seed)
    net = Network(arm)
    net.load_state_dict(base.state_dict(), strict=False)
    return kept(os.path.join(runs, f"{arm}-{seed}.pt"), lambda n: train(n, ids, 200, 32, 32, 2e-3, seed, n.has_code()), net)


# ---- held-out text ----


def windows_of(nets, arm, held_out, window):
    """Pieces of the held-out text are resampled."""
    n = HELD_OUT // window
    windows = torch.stack([held_out[i * len(held_out) // n :][:window] for i in range(n)])
    marginal = lambda nats: -torch.logsumexp(-nats, 1) + math.log(nats.shape[1])
    nats = nets[arm].under_all(windows)
    own = marginal(nats)
    tokens = n * (window - 1)
    yield "loss", own.sum().item() / tokens, None, None
    if arm in ("plain", "branch"):
        return
    difference = (own - marginal(nets[HELD_AGAINST.get(arm, "plain")].under_all(windows))).tolist()
    pieces = [difference[i * n // PIECES : (i + 1) * n // PIECES] for i in range(PIECES)]

    def price(some):
        return sum(sum(pieces[i]) for i in some) / sum(len(pieces[i]) * (window - 1) for i in some)

    yield "price", *measure.bootstrap(price, PIECES, measure.RESAMPLES)
    p = (-nats).softmax(1)
    entropy = -(p * p.clamp(min=1e-30).log()).sum(1).mean().item()
    share = torch.bincount(nats.argmin(1), minlength=COMPONENTS) / n
    yield "nats", math.log(COMPONENTS) - entropy, None, None
    yield "used", math.exp(-(share * share.clamp(min=1e-30).log()).sum().item()), None, None


# ---- texts ----


def write(net, beginnings, temperature, seed):
    """[PROMPTS COMPONENTS, TOKENS]: one under each component, or as many by temperature."""
    draws = torch.Generator().manual_seed(seed)
    text = beginnings.repeat_interleave(COMPONENTS, 0)
    z = torch.arange(COMPONENTS).repeat(len(beginnings))
    caches, new = [{} for _ in range(LAYERS)], text
    with torch.no_grad():
        for _ in range(TOKENS):
            logits = net(new, z, caches)[:, -1]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                new = torch.multinomial((logits / temperature).softmax(-1), 1, generator=draws)
            text = torch.cat((text, new), 1)
    return text


def grams(text, n):
    out = {}
    for i in range(len(text) - n + 1):
        out[tuple(text[i : i + n])] = out.get(tuple(text[i : i + n]), 0) + 1
    return out


def self_bleu(texts):
    """Mean BLEU-4 of a text with the others as references; 0.1 match where there is none."""
    counted = [[grams(t, n) for n in range(1, 5)] for t in texts]

    def bleu(i):
        logs = 0
        for n in range(4):
            own, others = counted[i][n], [c[n] for k, c in enumerate(counted) if k != i]
            right = sum(min(c, max(o.get(g, 0) for o in others)) for g, c in own.items())
            logs += math.log((right or 0.1) / sum(own.values())) / 4
        return math.exp(logs)

    return measure.mean([bleu(i) for i in range(len(texts))])


def point(net, judge, beginnings, temperature, seed):
    """-> {what: a value for each beginning}"""
    texts = write(net, beginnings, temperature, seed)
    nones = torch.full((len(texts),), -1)
    with torch.no_grad():
        told = -judge.nats(texts[:, -WINDOW - 1 :], nones)[:, -TOKENS:].mean(1)
    shape = lambda x: x.view(len(beginnings), COMPONENTS).tolist()
    out = {"judge": [measure.mean(row) for row in shape(told)],
           "self_bleu": [self_bleu(t) for t in texts[:, -TOKENS:].view(len(beginnings), COMPONENTS, TOKENS).tolist()]}
    if net.has_code() and temperature == codes.READ:
        with torch.no_grad():
            under = lambda k: net.nats(texts, torch.full((len(texts),), k))[:, -TOKENS:].sum(1)
            own = torch.stack([under(k) for k in range(COMPONENTS)], 1)
        z = torch.arange(COMPONENTS).repeat(len(beginnings))
        bits = (math.log(COMPONENTS) + (-own).log_softmax(1).gather(1, z[:, None])[:, 0]) / math.log(2)
        out["text_bits"] = [measure.mean(row) for row in shape(bits)]
    return out


def texts_of(points, arm, t):
    own = points[arm][t]
    yield from codes.compared(own, [] if arm in ("plain", "branch") else list(points[HELD_AGAINST.get(arm, "plain")].values()))
    if "text_bits" in own:
        yield "text_bits", *codes.means(own["text_bits"])


def first(runs, name, ids, steps, seed, symmetric):
    torch.manual_seed(seed)
    make = lambda net: train(net, ids, steps, 8, WINDOW, 2e-3, seed, False)
    return kept(os.path.join(runs, name + ".pt"), make, Network(symmetric=symmetric))


def rows_of(seed, runs, ids, held_out):
    judge = first(runs, "judge", ids, 800, 1000, False)
    base = first(runs, f"base-{seed}", ids, 400, seed, True)
    nets = {arm: arm_of(base, arm, seed, runs, ids) for arm in ARMS}
    beginnings = torch.stack([held_out[i * len(held_out) // PROMPTS :][:BEGINNING] for i in range(PROMPTS)])
    points = {}
    for arm in ARMS:
        temperatures = codes.TEMPERATURES["plain" if arm in ("plain", "branch") else "code"]
        path = os.path.join(runs, f"{arm}-{seed}.json")
        if not os.path.exists(path):
            ask.save(path, {str(t): point(nets[arm], judge, beginnings, t, seed) for t in temperatures})
        with open(path, encoding="utf-8") as f:
            points[arm] = {float(t): p for t, p in json.load(f).items()}
        print(f"places: {arm}-{seed} has written", flush=True)
    for arm in ARMS:
        for window in (32, WINDOW):
            for row in windows_of(nets, arm, held_out, window):
                yield seed, arm, window, *row
        for t in points[arm]:
            for row in texts_of(points, arm, t):
                yield seed, arm, f"{t:g}", *row


def main():
    runs, out = sys.argv[1:3]
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    ids, held_out = (torch.from_numpy(numpy.fromfile(os.path.join(runs, n + ".ids"), numpy.uint16).astype(numpy.int64))
                     for n in ("train", "held_out"))
    rows = [row for seed in os.environ.get("SEEDS", "1 2 3").split() for row in rows_of(int(seed), runs, ids, held_out)]
    codes.write_rows(os.path.join(out, "places.csv"), rows)


if __name__ == "__main__":
    main()
