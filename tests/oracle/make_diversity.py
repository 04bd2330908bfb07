#!/usr/bin/env python3
"""Writes tests/tokenizer/diversity_golden.json: texts as token ids, and how diverse they are, from the definitions.

distinct-n: Li et al. 2016, "A Diversity-Promoting Objective Function for Neural Conversation Models": different n-grams
    over n-grams. (Their footnote scales by generated words; as everybody since, by n-grams.)
BLEU: Papineni et al. 2002, for one sentence and several references, N = 4, uniform weights, brevity by the closest
    reference; smoothing 1 of Chen and Cherry 2014 ("add epsilon to zero counts", 0.1), with NLTK's conventions: at
    least one n-gram to divide by, 0 without any unigram in common.
self-BLEU: Zhu et al. 2018 (Texygen): the mean of every text's BLEU with all others as references.
edit distance: Levenshtein's by the table of Wagner and Fischer, over the length of the longer; the mean of all pairs.
"""
import itertools
import json
import math
import pathlib
import random
from collections import Counter


def ngrams(text, n):
    return [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]


def distinct(texts, n):
    grams = [g for t in texts for g in ngrams(t, n)]
    return len(set(grams)) / len(grams) if grams else None


def bleu(text, references):
    precisions = []
    for n in range(1, 5):
        counts = Counter(ngrams(text, n))
        most = Counter()
        for r in references:
            most |= Counter(ngrams(r, n))
        precisions.append((sum((counts & most).values()), max(1, sum(counts.values()))))
    if precisions[0][0] == 0:
        return 0.0
    closest = min((abs(len(r) - len(text)), len(r)) for r in references)[1]
    brevity = 1.0 if len(text) > closest else math.exp(1 - closest / len(text))
    return brevity * math.prod((p or 0.1) / q for p, q in precisions) ** 0.25


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def measure(texts):
    pairs = list(itertools.combinations(texts, 2)) if any(texts) else []
    return {
        "distinct": [distinct(texts, n) for n in (1, 2, 3)],
        "self_bleu": sum(bleu(t, texts[:i] + texts[i + 1 :]) for i, t in enumerate(texts)) / len(texts) if pairs else None,
        "edit_distance": sum(levenshtein(a, b) / max(len(a), len(b), 1) for a, b in pairs) / len(pairs) if pairs else None,
    }


def cases():
    r = random.Random(1)
    walk = lambda n, symbols: [r.randrange(symbols) for _ in range(n)]
    yield "one text", [[1, 2, 3, 2, 1]]
    yield "nothing", [[], []]
    yield "one is empty", [[], [5, 6, 7, 8, 9]]
    yield "the same twice", [[1, 2, 3, 4, 5, 6]] * 2
    yield "the same, shorter than the order", [[1, 2, 3]] * 3
    yield "nothing in common", [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    yield "the cat", [[1, 1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 1, 5], [6, 3, 7, 2, 4, 1, 5]]
    yield "lengths that tie", [[1, 2, 3, 4], [1, 2, 3], [1, 2, 3, 4, 5], [2, 3]]
    yield "ids of all sizes", [[0, 2147483647, 131071, 0], [2147483647, 131071, 0, 0, 1]]
    for n in (63, 64, 65, 128, 129):
        yield f"{n} tokens", [walk(n, 6), walk(n - 2, 6)]
    yield "many tokens of few", [walk(r.randrange(200), 4) for _ in range(8)]
    yield "many tokens of many", [walk(150, 5000) for _ in range(4)]
    base = walk(90, 300)
    yield "near copies", [[x if r.random() > 0.1 else r.randrange(300) for x in base] for _ in range(6)]


out = pathlib.Path(__file__).parent.parent / "tokenizer" / "diversity_golden.json"
lines = [json.dumps({"case": name, "texts": texts, **measure(texts)}, separators=(",", ":")) for name, texts in cases()]
out.write_text("[\n" + ",\n".join(lines) + "\n]\n")
