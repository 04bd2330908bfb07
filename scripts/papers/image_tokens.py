#!/usr/bin/env python3
"""Images as tokens with NOBLE's branches (003, Table 4), and digits drawn by eight noise seeds.

make papers-image-tokens. SEEDS=3, STEPS=1000, IMAGES=20000.
"""
import json
import os
import subprocess
import urllib.request

import fetch_mnist
import papers

STEPS = int(os.environ.get("STEPS", "1000"))
IMAGES = int(os.environ.get("IMAGES", "20000"))
SIDE, LEVELS, NOISE_SEEDS = 14, 16, 8
PAPER = {"plain": "6.723", "NOBLE": "6.699 / 6.690 / 6.682 (rank 64 / 128 / 256)"}


def noisy_config():
    """The nano body with symmetric attention and noise that lasts a whole image."""
    body = {
        "model_type": "noised", "vocab_size": 26, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "head_dim": 16, "max_position_embeddings": 197, "norm": "layernorm", "position": "rope2d", "bias": True,
        "input": {"kind": "tokens", "image_size": [SIDE, SIDE]},
        "mlp": {"activation": "gelu", "intermediate_size": 256}, "attention": {"kind": "symmetric"},
        "noise": {"scope": "head", "span": "sequence"},
    }
    path = os.path.join(papers.RUNS, "image-tokens", "noisy.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(body, f)
    return path


def train(name, config, data, seed):
    return papers.train("pretrain", f"image-tokens/{name}-{seed}", "--config", config, "--tokenizer",
                        os.path.join(data, "tokenizer.json"), "--data", os.path.join(data, "images.txt"), "--steps",
                        STEPS, "--warmup", max(STEPS // 20, 1), "--lr", "2e-3", "--eval-every", max(STEPS // 10, 1),
                        "--seed", seed)


def draw(model):
    """The tokens of ten digits for every noise seed, [seed][digit][196], by the daemon; one sampling seed for all."""
    daemon = subprocess.Popen([os.path.join(papers.BUILD, "noised"), "--model", model, "--port", "0"],
                              stdout=subprocess.PIPE, text=True)
    try:
        url = next(line.split()[-1] for line in daemon.stdout if line.startswith("listening on "))
        drawn = []
        for noise_seed in range(1, NOISE_SEEDS + 1):
            body = {"prompt": [[LEVELS + digit] for digit in range(10)], "max_tokens": SIDE * SIDE, "seed": 1,
                    "noise_seed": [noise_seed] * 10, "temperature": 0.7, "return_token_ids": True,
                    "logit_bias": {str(LEVELS + digit): -100 for digit in range(10)}}
            request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=600) as answer:
                drawn.append([choice["token_ids"] for choice in json.load(answer)["choices"]])
        return drawn
    finally:
        daemon.terminate()
        daemon.wait()


def grid(drawn):
    """A row a noise seed, a column a digit."""
    dot, gap, left, top = 4, 8, 110, 40
    size = SIDE * dot + gap
    out = [f'<text x="{left}" y="24" font-size="15">One sampling seed, {NOISE_SEEDS} noise seeds</text>']
    for row, digits in enumerate(drawn):
        out.append(f'<text x="8" y="{top + row * size + SIDE * dot / 2 + 4}">noise_seed {row + 1}</text>')
        for column, tokens in enumerate(digits):
            x, y = left + column * size, top + row * size
            out.append(f'<rect x="{x}" y="{y}" width="{SIDE * dot}" height="{SIDE * dot}" fill="#000000"/>')
            out += [f'<rect x="{x + i % SIDE * dot}" y="{y + i // SIDE * dot}" width="{dot}" height="{dot}" '
                    f'fill="#{17 * min(t, 15):02x}{17 * min(t, 15):02x}{17 * min(t, 15):02x}"/>'
                    for i, t in enumerate(tokens) if 0 < t < LEVELS]
    return papers.svg(left + 10 * size, top + len(drawn) * size, "\n".join(out) + "\n")


def main():
    mnist = fetch_mnist.mnist()
    subset = os.path.join(papers.RUNS, "image-tokens", "data")
    os.makedirs(subset, exist_ok=True)
    images = fetch_mnist.some_images(mnist, "train", IMAGES, subset)
    papers.run(os.path.join(papers.BUILD, "noised-train"), "images", "--data", images, "--out", subset)
    curves, losses = {}, {}
    for name, config in (("plain", "image-tokens-nano"), ("NOBLE", "image-tokens-noble-nano")):
        runs = [train(name, config, subset, seed) for seed in range(1, papers.SEEDS + 1)]
        curves[name] = [papers.evaluations(run) for run in runs]
        losses[name] = [curve[-1] for curve in curves[name]]
    papers.keep("image-tokens", ["network"], loss=losses)
    d, half = papers.difference(losses["NOBLE"], losses["plain"])
    papers.write("image-tokens.svg", papers.curves("Loss of image tokens, held-out images",
                                                   f"evaluation (every {max(STEPS // 10, 1)} steps)", "nats", curves))
    papers.write("image-tokens-drawn.svg", grid(draw(train("noisy", noisy_config(), subset, 1))))
    papers.write("image-tokens.md", PAGE.format(
        plan=papers.plan("SEEDS", "STEPS", "IMAGES"), images=IMAGES, steps=STEPS, seeds=papers.SEEDS,
        table=papers.table(["network", "paper", "loss, nats a token"],
                           [[name, PAPER[name], papers.told(losses[name], 4)] for name in PAPER]),
        claims=papers.table(["claim", "paper", "ours, 95%", "verdict"],
                            [["loss, NOBLE − plain", "−0.024 to −0.041", f"{d:+.4f} ± {half:.4f}",
                              papers.verdict(-0.024, losses["NOBLE"], losses["plain"])]])))


PAGE = """# Images as tokens, with NOBLE's branches

`make papers-image-tokens{plan}` (003, Table 4).

The paper's tokens come from a VQGAN, which needs ImageNet; ours are the
pixels of MNIST pooled to 14 × 14 in 16 shades, behind a token of their class: 197 tokens an image, a vocabulary of 26,
`rope2d`. The first {images} images, of which the last 5% are held out; `image-tokens-nano` and
`image-tokens-noble-nano`, {steps} steps; mean ± deviation over {seeds} seeds.

{table}
{claims}
![Loss by step](image-tokens.svg)

A third network has symmetric attention and noise that lasts the whole image (`noise.span` `sequence`). The daemon drew
these with `/v1/completions`: ten prompts of one class token each, `seed` 1 and `temperature` 0.7 throughout, so that
only the noise seed differs from row to row. After few steps they are strokes, not yet digits.

![Ten digits under eight noise seeds](image-tokens-drawn.svg)
"""

if __name__ == "__main__":
    main()
