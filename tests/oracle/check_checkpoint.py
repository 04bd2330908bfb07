#!/usr/bin/python3
"""What a checkpoint says about a sequence of token ids, for comparison with the server's echoed log-probabilities.

    check_checkpoint.py MODEL_DIR TOKEN... [--noise-seed N] [--noise-scale X] [--dtype D] [--top N] [--json]

F32, BF16, F16, I8 and 4-bit weights are widened and the computation runs in float64 (default), so a BF16 checkpoint gives the
exact answer of its rounded weights. token_logprobs[t] is the log-probability of token t after the tokens before it
(null for t = 0), as in the `echo` of the completions route; `next` describes the token that would follow the last.
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import oracle  # noqa: E402


def examine(directory, tokens, seed=0, scale=1.0, stream=0, dtype=torch.float64, top=5):
    cfg, P = oracle.load(directory, dtype)
    if not tokens or not all(0 <= t < cfg.vocab for t in tokens):
        raise ValueError(f"token ids must be in 0 .. {cfg.vocab - 1}")
    with torch.no_grad():
        logits = oracle.forward(cfg, P, torch.tensor([tokens]), oracle.Draw(seed, scale, stream))[0]
    logprobs = torch.log_softmax(logits, -1)
    best = [torch.topk(row, min(top, cfg.vocab)) for row in logprobs]
    pairs = [[[int(i), float(p)] for p, i in zip(b.values, b.indices)] for b in best]
    return {
        "tokens": tokens,
        "token_logprobs": [None] + [float(logprobs[t, tokens[t + 1]]) for t in range(len(tokens) - 1)],
        "top_logprobs": [None] + pairs[:-1],  # [token, log-probability] pairs, best first, at the place they predict
        "next": pairs[-1],
        "logits": logits.tolist(),
    }


def main():
    parser = argparse.ArgumentParser(description="reference logits and log-probabilities of a checkpoint directory")
    parser.add_argument("model")
    parser.add_argument("tokens", type=int, nargs="+")
    parser.add_argument("--noise-seed", type=int, default=0)
    parser.add_argument("--noise-scale", type=float, default=1.0)
    parser.add_argument("--noise-stream", type=int, default=0)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one object with the logits too")
    args = parser.parse_args()
    r = examine(args.model, args.tokens, args.noise_seed, args.noise_scale, args.noise_stream,
                getattr(torch, args.dtype), args.top)
    if args.json:
        print(json.dumps(r))
        return
    show = lambda pairs: "  ".join(f"{i}:{p:.5f}" for i, p in pairs or [])
    for t, token in enumerate(r["tokens"]):
        p = r["token_logprobs"][t]
        p = "-" if p is None else format(p, ".6f")
        print(f"{t:5} token {token:6}  logprob {p:>10}  best {show(r['top_logprobs'][t])}")
    print(f" next {'':21}{'':10}   best {show(r['next'])}")


if __name__ == "__main__":
    main()
