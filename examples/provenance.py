"""How surely a text tells which noise wrote it: python3 provenance.py [URL [NOISE_SCALE [TEMPERATURE]]]

Draws a text under each of 16 noise seeds (of a model whose sequences have components: under each of these), then asks
of every text under which it is the most probable, and counts by the text's length how often that is another one. The
beginnings are given: a text of unknown beginning is scored as a continuation of nothing, and tells less.
"""
import json
import math
import sys
import urllib.request

url, scale, temperature, *_ = [*sys.argv[1:], *["http://localhost:8080", "2", "1"][len(sys.argv) - 1 :]]
BEGINNINGS = ["It was a dark night, and", "She opened the letter", "In the beginning", "My dear friend,",
              "The old man looked at the sea", "\"Come in,\" said", "Of all the things", "There was once"]
LENGTHS = [8, 16, 32, 64]


def ask(route, body=None):
    with urllib.request.urlopen(url + route, body and json.dumps(body).encode()) as answer:
        return json.load(answer)


def interval(wrong, n):
    """Wilson's, of 95%."""
    z, p = 1.96, wrong / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


components = ask("/noise").get("components", 0)
field, candidates = ("noise_component", list(range(components))) if components else ("noise_seed", list(range(1, 17)))
noise = {"noise_seed": 1, "noise_scale": float(scale), field: candidates}
wrong, texts = dict.fromkeys(LENGTHS, 0), 0
for seed, beginning in enumerate(BEGINNINGS):
    drawn = ask("/v1/completions", {**noise, "prompt": beginning, "n": len(candidates), "seed": seed, "max_tokens": LENGTHS[-1],
                                    "temperature": float(temperature), "ignore_eos": True, "return_token_ids": True})
    for own, choice in enumerate(drawn["choices"]):
        scored = ask("/v1/score", {**noise, "prompt": beginning, "continuations": [choice["token_ids"]]})["choices"]
        for length in LENGTHS:
            sums = [sum(s["logprobs"]["token_logprobs"][:length]) for s in scored]
            wrong[length] += sums.index(max(sums)) != own
        texts += 1
print(f"{texts} texts, {len(candidates)} {field}s, noise scale {scale}, temperature {temperature}; by chance "
      f"{100 - 100 / len(candidates):.0f}% wrong")
for length in LENGTHS:
    low, high = interval(wrong[length], texts)
    print(f"{length:4} tokens: {100 * wrong[length] / texts:3.0f}% wrong ({100 * low:.0f} to {100 * high:.0f})")
