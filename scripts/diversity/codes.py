"""codes.py: has the networks that codes.sh trained write, and measures them: OUT/<the name of RUNS>.csv, a row a figure,

    seed, arm, at, measure, value, low, high

with `at` a window's length in tokens or a temperature. A code is held against `plain` of its seed, which took the same
steps without one. In windows of held-out text: `loss`, -log mean_z p(window | z) a token; `price`, that minus plain's,
with the interval of a bootstrap over pieces of the text; `nats`, what a window tells of its component; `used`, exp of the
entropy of the components' shares. Of texts, one under each component where plain draws as many by temperature:
`self_bleu`; `judge`, nats a token; `gain`, the judge's nats over plain's at equal self-BLEU, with intervals over
beginnings, and `gain_log`, the same where straight lines join plain's temperatures not in self-BLEU but in its logarithm.
At temperature 0.7 also `text_bits` and `book_bits`, what a text and the book that it sounds like to the classifier
tell of its component, and `share`, of the variance between the texts of a beginning in how much they sound like a book: the
mean, the least and the greatest of the books; `share_chance` is what chance explains. An arm residual@1.2 is the network
`residual` at noise_scale 1.2."""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import random
import signal
import subprocess
import sys

import ask
import measure

TEMPERATURES = {"plain": (0, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05), "code": (0, 0.3, 0.5, 0.7)}
READ = 0.7  # the temperature of the texts that are asked for what they tell
PERMUTATIONS, PIECES = 200, 4


def network_of(arm):
    """-> its name, noise_scale."""
    name, _, scale = arm.partition("@")
    return name, float(scale or 1)


def temperatures(arm):
    return TEMPERATURES["plain" if arm == "plain" else "code"]


# ---- held-out text ----


def pieces(a):
    """The end of every book, in four pieces, or whole where they are many: a piece has to be longer than a window."""
    n = PIECES if len(a.books) < 8 else 1
    for book in a.books:
        with open(book, encoding="utf-8", errors="replace") as f:
            text = f.read()[-a.held_out:]
        for i in range(n):
            yield text[i * len(text) // n : (i + 1) * len(text) // n]


def evaluated(a, arm, seed, window):
    """What noised-train eval says of every piece, and then of all; kept in RUNS/eval."""
    name, scale = network_of(arm)
    folder, out = os.path.join(a.runs, "eval"), []
    os.makedirs(folder, exist_ok=True)
    parts = list(pieces(a))
    for i, text in enumerate([*parts, "".join(parts)]):
        source = os.path.join(folder, f"{i}.txt")
        if not os.path.exists(source):
            with open(source, "w", encoding="utf-8") as f:
                f.write(text)
        kept = os.path.join(folder, f"{arm}-{seed}-{window}-{i}.json")
        if not os.path.exists(kept):
            command = [os.path.join(a.build, "noised-train"), "eval", "--model", os.path.join(a.runs, f"{name}-{seed}"),
                       "--data", source, "--window", str(window), "--noise-scale", str(scale)]
            ask.save(kept, json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        with open(kept, encoding="utf-8") as f:
            out.append(json.load(f))
    return out


def windows_of(a, seed, arm, window):
    *parts, whole = evaluated(a, arm, seed, window)
    yield "loss", whole["loss"], None, None
    if arm == "plain":
        return
    other = evaluated(a, "plain", seed, window)

    def price(some):
        tokens = sum(parts[i]["tokens"] for i in some)
        return sum((parts[i]["loss"] - other[i]["loss"]) * parts[i]["tokens"] for i in some) / tokens

    yield "price", *measure.bootstrap(price, len(parts), measure.RESAMPLES)
    yield "nats", whole["component_nats"], None, None
    yield "used", math.exp(whole["component_entropy"]), None, None


# ---- texts ----


def write_texts(ask_model, prompt, number, code, n, length, temperature):
    """A beginning's texts; with a code one under each component."""
    answer = ask_model("/v1/completions", {
        "prompt": prompt, "n": n, "max_tokens": length, "temperature": temperature, "seed": number, "noise_seed": number,
        "ignore_eos": True, "return_token_ids": True, "diversity": True, **code})
    return {"prompt": prompt, "texts": [c["token_ids"] for c in answer["choices"]], "noise_seeds": list(range(n)),
            "diversity": answer["diversity"][0]}


def posterior(ask_model, entry, number, code):
    """log2 of the probability that the component which wrote a text has among all, for every text."""
    for i, text in enumerate(entry["texts"]):  # one at a time: all of them under all components would fill the queue
        scored = ask_model("/v1/score", {"prompt": entry["prompt"], "continuations": [text], "noise_seed": number, **code})
        told = [choice["logprob"] for choice in scored["choices"]]
        yield (told[i] - max(told) - math.log(sum(math.exp(t - max(told)) for t in told))) / math.log(2)


def write_all(a, seed, arm, prompts, judge, reader):
    """Into RUNS/texts/<arm>-<seed>/<temperature>.json, as ask.py keeps them; one request a beginning, some at a time."""
    folder = os.path.join(a.runs, "texts", f"{arm}-{seed}")
    os.makedirs(folder, exist_ok=True)
    path = lambda t: os.path.join(folder, f"{t:g}.json")
    missing = [t for t in temperatures(arm) if not os.path.exists(path(t))]
    if not missing:
        return
    name, scale = network_of(arm)
    code = {} if arm == "plain" else {"noise_component": list(range(a.components)), "noise_scale": scale}
    with ask.serving(os.path.join(a.build, "noised"), os.path.join(a.runs, f"{name}-{seed}")) as ask_model, \
            concurrent.futures.ThreadPoolExecutor(4) as pool:

        def one(number, t):
            entry = write_texts(ask_model, prompts[number], number, code, a.components, a.tokens, t)
            entry["judge"] = ask.judge_texts(judge, entry)
            if code and t == READ:
                entry |= {"posterior": list(posterior(ask_model, entry, number, code)), "books": ask.read_texts(reader, entry)}
            return entry

        for t in missing:
            ask.save(path(t), {"prompts": list(pool.map(lambda i, t=t: one(i, t), range(len(prompts))))})
    print(f"codes: {arm}-{seed} has written", flush=True)


def information(rows, columns, n):
    """Bits that the row tells of the column, counted from pairs."""
    joint, own, other = {}, {}, {}
    for pair in zip(rows, columns):
        joint[pair] = joint.get(pair, 0) + 1
        own[pair[0]], other[pair[1]] = own.get(pair[0], 0) + 1, other.get(pair[1], 0) + 1
    return sum(c / n * math.log2(c * n / (own[r] * other[k])) for (r, k), c in joint.items())


def book_bits(entries):
    """Less what texts of a beginning tell on average that are dealt to the components at random."""
    verdicts = [[whole.index(max(whole)) for _, _, whole in e["books"]] for e in entries]
    components = [z for e in entries for z in e["noise_seeds"]]
    told = lambda dealt: information(components, [v for row in dealt for v in row], len(components))
    draws = random.Random(1)
    chance = [told([draws.sample(v, len(v)) for v in verdicts]) for _ in range(PERMUTATIONS)]
    return told(verdicts) - measure.mean(chance)


def point(entries):
    return {"self_bleu": [e["diversity"]["self_bleu"] for e in entries], "judge": [measure.mean(e["judge"]) for e in entries]}


def means(values):
    return measure.bootstrap(lambda some: measure.mean([values[i] for i in some]), len(values), measure.RESAMPLES)


def compared(own, curve):
    """A point, and what it gains over those of temperature; no curve: it is one of them."""
    for f in ("self_bleu", "judge"):
        yield f, *means(own[f])
    for name, *scale in (("gain",), ("gain_log", math.log)) if curve else ():
        gain = lambda some, scale=scale: measure.gain_of(own, "judge", curve, some, *scale)
        yield name, *measure.bootstrap(gain, len(own["judge"]), measure.RESAMPLES)


def texts_of(data, names, arm, t):
    """data: {temperature: entries} of `plain` and of the arm."""
    entries, curve = data[arm][t], [] if arm == "plain" else [point(e) for e in data["plain"].values()]
    yield from compared(point(entries), curve)
    if arm == "plain" or t != READ:
        return
    yield "text_bits", *means([math.log2(len(e["texts"])) + measure.mean(e["posterior"]) for e in entries])
    yield "book_bits", book_bits(entries), None, None
    told = measure.style(entries, names)
    shares = [share for _, share, _, _ in told]
    yield "share", measure.mean(shares), min(shares), max(shares)
    yield "share_chance", measure.mean([chance for _, _, chance, _ in told]), None, None


def rows_of(a, names):
    for seed in a.seeds:
        data = {}
        for arm in a.arms:
            data[arm] = {}
            for t in temperatures(arm):
                with open(os.path.join(a.runs, "texts", f"{arm}-{seed}", f"{t:g}.json"), encoding="utf-8") as f:
                    data[arm][t] = json.load(f)["prompts"]
        for arm in a.arms:
            for window in a.windows:
                for row in windows_of(a, seed, arm, window):
                    yield seed, arm, window, *row
            for t in temperatures(arm):
                for row in texts_of(data, names, arm, t):
                    yield seed, arm, f"{t:g}", *row


def write_rows(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        table = csv.writer(f, lineterminator="\n")
        table.writerow(("seed", "arm", "at", "measure", "value", "low", "high"))
        for row in rows:
            table.writerow([f"{v:.4f}" if isinstance(v, float) else v for v in row])


def main():
    parser = argparse.ArgumentParser(description="what codes are worth")
    for name in ("build", "runs", "out"):
        parser.add_argument("--" + name, required=True)
    for name in ("books", "arms", "seeds"):
        parser.add_argument("--" + name, required=True, nargs="+")
    for name in ("components", "prompts", "tokens", "held-out"):
        parser.add_argument("--" + name, required=True, type=int)
    parser.add_argument("--windows", required=True, nargs="+", type=int)
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    per_book = -(-a.prompts // len(a.books))
    beginnings = [b for book in a.books for b in ask.held_out(book, per_book)][: a.prompts]
    serve = lambda name: ask.serving(os.path.join(a.build, "noised"), os.path.join(a.runs, name))
    with serve("judge-0") as judge, serve("reader") as reader:
        prompts = [ask.tokens_of(judge, b) for b in beginnings]
        for seed in a.seeds:
            for arm in a.arms:
                write_all(a, seed, arm, prompts, judge, reader)
    write_rows(os.path.join(a.out, os.path.basename(a.runs) + ".csv"), rows_of(a, measure.labels(a.runs)))


if __name__ == "__main__":
    main()
