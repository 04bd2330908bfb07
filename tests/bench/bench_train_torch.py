"""One GPT-2-like model in PyTorch, equal in shape to what bench_train.py gives noised-train: learned positions, tied
embeddings, no biases, exact gelu, AdamW, clipping by norm. Prints the seconds of each timed step and the bytes
of memory it took, as JSON."""
import json
import resource
import sys
import time

import torch_memory

torch_memory.keep()

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight)


class Block(nn.Module):
    def __init__(self, width, heads, positions):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.register_buffer("later", torch.ones(positions, positions, dtype=torch.bool).triu(1))

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(d, 2))
        scores = (q @ k.transpose(2, 3) * (d // self.heads) ** -0.5).masked_fill(self.later, float("-inf"))
        return self.o((scores.softmax(3) @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(s["vocab"], s["width"]), nn.Embedding(s["positions"], s["width"])
        self.blocks = nn.ModuleList(Block(s["width"], s["heads"], s["positions"]) for _ in range(s["layers"]))
        self.norm = Norm(s["width"])

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    s, precision, steps = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(int(sys.argv[4]))
    torch.manual_seed(1)
    model = Model(s)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    seconds = []
    for _ in range(steps + 1):
        ids = torch.randint(s["vocab"], (s["batch"], s["positions"] + 1))
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - started)
    print(json.dumps({"seconds": seconds[1:], "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


main()
