#!/usr/bin/env python3
"""The rivals of bench_serve.sh and its table.

    bench_serve.py torch f32|bf16      times PyTorch on a GPT-2 of 124M parameters; prints lines as bench-serve does
    bench_serve.py bert f32|bf16       the same on BERT-base, which reads 32 texts of 128 tokens at once
    bench_serve.py gguf TOKENIZER FILE writes such a model, of random weights and with the words of a tokenizer.json, for
                                       llama.cpp
    bench_serve.py llama NAME          the same lines of the tables of llama-bench and llama-batched-bench on stdin
    bench_serve.py table FILE          medians of the lines NAME TEST RATE in FILE, and ratios to the first name that has the test
"""
import json
import os
import statistics
import struct
import sys
import time

import torch_memory

LAYERS, HEADS, DIM, WIDTH, VOCAB, CONTEXT = 12, 12, 768, 3072, 50304, 1024
PROMPT, PREFIX, STEPS, STREAMS = 512, 64, 8, (1, 8, 32)
TEXTS, TOKENS, WORDS = 32, 128, 30522


def torch_of(kind):
    torch_memory.keep()
    import torch
    import torch.nn.functional as F

    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    torch.manual_seed(1)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return torch, F, dtype, lambda *shape: (torch.randn(*shape) * 0.02).to(dtype)


def random_blocks(random):
    return [[random(3 * DIM, DIM), random(DIM, DIM), random(WIDTH, DIM), random(DIM, WIDTH)] for _ in range(LAYERS)]


def torch_bench(kind):
    torch, F, dtype, random = torch_of(kind)
    embed, positions = random(VOCAB, DIM), random(CONTEXT, DIM)
    blocks = random_blocks(random)
    one, zero = torch.ones(DIM, dtype=dtype), torch.zeros(DIM, dtype=dtype)

    def heads(x, n, rows):
        return x.view(n, rows, HEADS, DIM // HEADS).transpose(1, 2)

    def forward(tokens, cache, at):
        n, rows = tokens.shape
        x = F.embedding(tokens, embed) + positions[at:at + rows]
        mask = torch.full((rows, at + rows), float("-inf"), dtype=dtype).triu(at + 1)
        for (qkv, out, up, down), (keys, values) in zip(blocks, cache):
            q, k, v = F.linear(F.layer_norm(x, (DIM,), one, zero), qkv).split(DIM, 2)
            keys[:, :, at:at + rows], values[:, :, at:at + rows] = heads(k, n, rows), heads(v, n, rows)
            s = heads(q, n, rows) @ keys[:, :, :at + rows].transpose(2, 3) * (DIM // HEADS) ** -0.5
            y = torch.softmax(s + mask if rows > 1 else s, 3) @ values[:, :, :at + rows]
            x = x + F.linear(y.transpose(1, 2).reshape(n, rows, DIM), out)
            x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (DIM,), one, zero), up)), down)
        return F.linear(F.layer_norm(x[:, -1], (DIM,), one, zero), embed)

    def new_cache(n, length):
        shape = (n, HEADS, length, DIM // HEADS)
        return [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in range(LAYERS)]

    def prefill():
        tokens, cache = torch.arange(PROMPT).view(1, -1), new_cache(1, PROMPT)
        start = time.perf_counter()
        forward(tokens, cache, 0)
        return PROMPT / (time.perf_counter() - start)

    def decode(n):
        tokens, cache = torch.arange(n * PREFIX).view(n, -1), new_cache(n, PREFIX + STEPS)
        forward(tokens, cache, 0)
        start = time.perf_counter()
        for step in range(STEPS):
            forward(tokens[:, :1], cache, PREFIX + step)
        return n * STEPS / (time.perf_counter() - start)

    with torch.inference_mode():
        prefill()
        print(f"torch-{kind} prefill={PROMPT} {prefill():.1f}", flush=True)
        for n in STREAMS:
            print(f"torch-{kind} decode={n} {decode(n):.1f}", flush=True)


def bert_bench(kind):
    torch, F, dtype, random = torch_of(kind)
    embed, positions, score = random(WORDS, DIM), random(512, DIM), random(2, DIM)
    blocks = random_blocks(random)
    biases = [torch.zeros(n, dtype=dtype) for n in (3 * DIM, DIM, WIDTH, DIM)]
    one, zero = torch.ones(DIM, dtype=dtype), torch.zeros(DIM, dtype=dtype)

    def heads(x):
        return x.view(TEXTS, TOKENS, HEADS, DIM // HEADS).transpose(1, 2)

    def forward(tokens):
        x = F.embedding(tokens, embed) + positions[:TOKENS]
        for qkv, out, up, down in blocks:
            q, k, v = map(heads, F.linear(F.layer_norm(x, (DIM,), one, zero), qkv, biases[0]).split(DIM, 2))
            y = torch.softmax(q @ k.transpose(2, 3) * (DIM // HEADS) ** -0.5, 3) @ v
            x = x + F.linear(y.transpose(1, 2).reshape(TEXTS, TOKENS, DIM), out, biases[1])
            x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (DIM,), one, zero), up, biases[2])), down, biases[3])
        return F.linear(F.layer_norm(x[:, 0], (DIM,), one, zero), score)

    def read():
        start = time.perf_counter()
        forward(torch.arange(TEXTS * TOKENS).view(TEXTS, TOKENS))
        return TEXTS * TOKENS / (time.perf_counter() - start)

    with torch.inference_mode():
        read()
        print(f"bert-torch-{kind} read={TEXTS}x{TOKENS} {read():.1f}", flush=True)


def gguf(tokenizer, path):
    import numpy as np

    u32, i32, f32, string, array, bf16 = 4, 5, 6, 8, 9, 30
    bpe = json.load(open(tokenizer, encoding="utf-8"))
    added = {t["content"]: t["id"] for t in bpe["added_tokens"]}
    ids = bpe["model"]["vocab"] | added
    words = sorted(ids, key=ids.get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in bpe["model"]["merges"]]

    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def value_of(kind, value):
        if kind == string:
            return text(value)
        if kind == array:
            of, items = value
            return struct.pack("<IQ", of, len(items)) + b"".join(value_of(of, item) for item in items)
        return struct.pack({u32: "<I", i32: "<i", f32: "<f"}[kind], value)

    fields = [("general.architecture", string, "gpt2"), ("general.alignment", u32, 32),
              ("tokenizer.ggml.model", string, "gpt2"), ("tokenizer.ggml.pre", string, "gpt-2"),
              ("tokenizer.ggml.tokens", array, (string, words)), ("tokenizer.ggml.merges", array, (string, merges)),
              ("tokenizer.ggml.token_type", array, (i32, [3 if w in added else 1 for w in words])),
              ("tokenizer.ggml.bos_token_id", u32, 0), ("tokenizer.ggml.eos_token_id", u32, 0),
              ("gpt2.vocab_size", u32, VOCAB), ("gpt2.block_count", u32, LAYERS), ("gpt2.context_length", u32, CONTEXT),
              ("gpt2.embedding_length", u32, DIM), ("gpt2.feed_forward_length", u32, WIDTH),
              ("gpt2.attention.head_count", u32, HEADS), ("gpt2.attention.layer_norm_epsilon", f32, 1e-5)]
    # Releases before the summer of 2025 want the head apart. A step reads the head whole, of the embedding a few rows.
    shapes = {"token_embd.weight": (VOCAB, DIM), "position_embd.weight": (CONTEXT, DIM), "output.weight": (VOCAB, DIM)}
    for norm in ["output_norm"] + [f"blk.{i}.{n}_norm" for i in range(LAYERS) for n in ("attn", "ffn")]:
        shapes[norm + ".weight"] = shapes[norm + ".bias"] = (DIM,)
    for i in range(LAYERS):
        linears = {"attn_qkv": (3 * DIM, DIM), "attn_output": (DIM, DIM), "ffn_up": (WIDTH, DIM), "ffn_down": (DIM, WIDTH)}
        for name, shape in linears.items():
            shapes[f"blk.{i}.{name}.weight"], shapes[f"blk.{i}.{name}.bias"] = shape, shape[:1]

    wide = {name for name, shape in shapes.items() if len(shape) == 2 and name != "position_embd.weight"}
    head, offset = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields)), 0
    for name, kind, value in fields:
        head += text(name) + struct.pack("<I", kind) + value_of(kind, value)
    for name, shape in shapes.items():
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in shape[::-1])
        head += struct.pack("<IQ", bf16 if name in wide else 0, offset)
        offset += int(np.prod(shape)) * (2 if name in wide else 4)
    rng = np.random.default_rng(1)
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32))
        for name, shape in shapes.items():
            x = rng.standard_normal(shape, dtype=np.float32) * 0.02
            if name.endswith(".bias"):
                x *= 0
            elif len(shape) == 1:
                x = x * 0 + 1
            out.write((x.view(np.uint32) >> 16).astype(np.uint16).tobytes() if name in wide else x.tobytes())


def llama(name):
    """llama-bench: |model|size|params|backend|threads|test|t/s|; llama-batched-bench: |PP|TG|B|N_KV|T_PP|S_PP|T_TG|S_TG|"""
    for line in sys.stdin:
        cells = [c.strip() for c in line.split("|")]
        if len(cells) == 9 and cells[6][:2] in ("pp", "tg"):
            test = f"prefill={PROMPT}" if cells[6].startswith("pp") else "decode=1"
            print(f"{name} {test} {float(cells[7].split()[0]):.1f}")
        elif len(cells) > 9 and cells[1].isdigit():
            print(f"{name} decode={cells[3]} {float(cells[8]):.1f}")


def table(path):
    rates = {}
    for line in open(path):
        name, test, rate = line.split()[:3]
        rates.setdefault(name, {}).setdefault(test, []).append(float(rate))
    tests = list(dict.fromkeys(t for results in rates.values() for t in results))
    print(f"{'tokens/s':24}" + "".join(f"{t:>18}" for t in tests))
    first = {t: next(results[t] for results in rates.values() if t in results) for t in tests}
    for name, results in rates.items():
        row = f"{name:24}"
        for t in tests:
            if t not in results:
                row += f"{'-':>18}"
                continue
            rate = statistics.median(results[t])
            row += f"{rate:10.0f} {rate / statistics.median(first[t]):6.2f}x"
        print(row)


if __name__ == "__main__":
    modes = {"torch": torch_bench, "bert": bert_bench, "gguf": gguf, "llama": llama, "table": table}
    if len(sys.argv) < 3 or sys.argv[1] not in modes:
        sys.exit(__doc__)
    modes[sys.argv[1]](*sys.argv[2:])
