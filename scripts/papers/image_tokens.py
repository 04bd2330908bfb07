#!/usr/bin/env python3
"""Images as tokens with NOBLE's branches (NOBLE, Table 4), and digits drawn by eight noise seeds.

make papers-image-tokens. SEEDS=3, STEPS=1000, IMAGES=20000.
"""
import json
import os
import subprocess
import urllib.request

import ablation
import branches
import fetch_mnist
import papers
import pictures
import statistic

SIDE, LEVELS, NOISE_SEEDS = 14, 16, 8
PAPER = {"kaiming": "6.723", "NOBLE": "6.699 / 6.690 / 6.682 (rank 64 / 128 / 256)"}
BODY = {"model_type": "noised", "vocab_size": LEVELS + 10, "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "head_dim": 16, "max_position_embeddings": 1 + SIDE * SIDE, "position": "rope2d",
        "input": {"kind": "tokens", "image_size": [SIDE, SIDE]}}
HOST = {**BODY, "norm": "rmsnorm", "tie_word_embeddings": False, "attention": {"kind": "mha"},
        "mlp": {"activation": "gelu", "gated": True, "intermediate_size": 192}}
NETWORKS = branches.arms(HOST, 8)
# Symmetric attention and noise that lasts a whole image.
NOISY = {**BODY, "norm": "layernorm", "bias": True, "mlp": {"activation": "gelu", "intermediate_size": 256},
         "attention": {"kind": "symmetric"}, "noise": {"scope": "head", "span": "sequence"}}


def trainer(plan):
    """(name, config, seed) -> the folder of a run on the first IMAGES images."""
    folder = papers.place("image-tokens", "data", "")
    images = fetch_mnist.some_images(fetch_mnist.mnist(), "train", plan["IMAGES"], folder)
    papers.run(os.path.join(papers.BUILD, "noised-train"), "images", "--data", images, "--out", folder)

    def train(name, body, seed):
        return papers.train(
            "pretrain", f"image-tokens/{name}-{seed}", "--config", papers.config("image-tokens", name, body), "--tokenizer",
            os.path.join(folder, "tokenizer.json"), "--data", os.path.join(folder, "images.txt"), "--steps", plan["STEPS"],
            "--warmup", max(plan["STEPS"] // 20, 1), "--lr", "2e-3", "--eval-every", ablation.every(plan), "--seed", seed)

    return train


def begin(plan):
    train = trainer(plan)
    return list(NETWORKS), lambda name, seed: ablation.losses(train(name, NETWORKS[name], seed))


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
    return pictures.svg(left + 10 * size, top + len(drawn) * size, "\n".join(out) + "\n")


def fields(kept):
    return {"hosts": branches.WORDS,
            "claims": branches.table(branches.claims(kept, "loss", "loss", -0.024, "−0.024 to −0.041")),
            "table": papers.table(["network", "paper", "seeds", "loss, nats a token"], [
                [name, PAPER.get(name, ""), len(kept.values("loss", name)), statistic.told(kept.values("loss", name), 4)]
                for name in NETWORKS])}


def picture(kept):
    return {"image-tokens.svg": pictures.curves(
        "Loss of image tokens, held-out images", f"evaluation (every {ablation.every(kept.plan)} steps)", "nats",
        {name: kept.curves(name) for name in kept.names()})}


def end(plan):
    """Digits as the daemon draws them: the one picture that is not of the csv."""
    with open(os.path.join(papers.DOCS, "image-tokens-drawn.svg"), "w", encoding="utf-8") as f:
        f.write(grid(draw(trainer(plan)("noisy", NOISY, 1))))


PAGE = """# Images as tokens, with NOBLE's branches

`{command}` (NOBLE, Table 4).{ran}

The paper's tokens come from a VQGAN, which needs ImageNet; ours are the pixels of MNIST pooled to 14 × 14 in 16 shades,
behind a token of their class: 197 tokens an image, a vocabulary of 26, `rope2d`. The first {IMAGES} images, of which the
last 5% are held out; width 64, two layers, NOBLE of rank 8, {STEPS} steps of 8 images. {hosts} Mean ± deviation over the
seeds ([image-tokens.csv](image-tokens.csv)).

{table}
{claims}
![Loss by step](image-tokens.svg)

Another network has symmetric attention and noise that lasts the whole image (`noise.span` `sequence`). The daemon drew
these with `/v1/completions`: ten prompts of one class token each, `seed` 1 and `temperature` 0.7 throughout, so that
only the noise seed differs from row to row. After few steps they are strokes, not yet digits.

![Ten digits under eight noise seeds](image-tokens-drawn.svg)
"""

experiment = papers.Experiment(
    "image-tokens", keys=["network"], plan={"SEEDS": 3, "STEPS": 1000, "IMAGES": 20000}, begin=begin, page=PAGE,
    fields=fields, pictures=picture, end=end)

if __name__ == "__main__":
    experiment.main()
