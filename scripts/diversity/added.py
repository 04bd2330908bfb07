"""added.py: gives noise to a model that was trained without (noised-weights noise), has it write, and holds its texts against
those of its temperature; OUT, a row a setting:

    sigma, temperature, noise_scale, distinct, self_bleu, judge, gain, and _low and _high of the last three

`sigma` is none, fitted (r times the root mean square of a head's queries, r by the budget of nats) or equal: one number for
all heads, the root mean square of the fitted ones. `distinct` is the share of different texts under a beginning; `judge`
what another network of the same tokenizer gives, nats a token; `gain` that minus what temperature has at equal self-BLEU,
with 95% intervals of a bootstrap over beginnings."""
import argparse
import csv
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys

import ask
import measure

NONE = [f"{t},0" for t in (0, *ask.TEMPERATURES)]
NOISE = [f"{t},{s}" for t, scales in ((0, (0.5, 1, 2, 4)), (0.3, (1, 2))) for s in scales]
MEASURES = "self_bleu", "judge", "gain"


def level(folder):
    """All sigmas of a folder become their root mean square, in place; its header has the digest of the data."""
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as f:
        header = f.read(struct.unpack("<Q", f.read(8))[0])
        data = bytearray(f.read())
    places = [slice(*t["data_offsets"]) for name, t in json.loads(header).items() if name.endswith(".noise.sigma")]
    sigmas = [s for at in places for s, in struct.iter_unpack("<f", data[at])]
    same = struct.pack("<f", (sum(s * s for s in sigmas) / len(sigmas)) ** 0.5)
    before = hashlib.sha256(data).hexdigest()
    for at in places:
        data[at] = same * (len(data[at]) // 4)
    header = header.replace(before.encode(), hashlib.sha256(data).hexdigest().encode())
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + data)


def make_models(a):
    """RUNS/{judge,none,fitted,equal}"""
    path = lambda name: os.path.join(a.runs, name)
    for name, folder in (("judge", a.judge), ("none", a.model)):
        if not os.path.exists(path(name)):
            os.symlink(os.path.realpath(folder), path(name))
    if not os.path.exists(path("fitted")):
        subprocess.run([os.path.join(a.build, "noised-weights"), "noise", "--span", "sequence", "--budget", str(a.budget),
                        "--data", a.books[0], os.path.realpath(a.model), path("fitted")], check=True)
    if not os.path.exists(path("equal")):
        shutil.rmtree(path("equal.new"), ignore_errors=True)
        shutil.copytree(path("fitted"), path("equal.new"))
        level(path("equal.new"))
        os.rename(path("equal.new"), path("equal"))


def write(a, settings):
    """{(sigma, setting): entries}, kept in RUNS/texts."""
    out, noised = {}, os.path.join(a.build, "noised")
    beginnings = [b for book in a.books for b in ask.held_out(book, -(-a.prompts // len(a.books)))]
    with ask.serving(noised, os.path.join(a.runs, "judge")) as judge:
        prompts = [ask.tokens_of(judge, b) for b in beginnings]
        for sigma, wanted in settings.items():
            folder = os.path.join(a.runs, "texts", sigma)
            os.makedirs(folder, exist_ok=True)
            with ask.serving(noised, os.path.join(a.runs, sigma)) as model:
                for setting in wanted:
                    kept = os.path.join(folder, setting + ".json")
                    if not os.path.exists(kept):
                        entries = ask.write_texts(model, setting, prompts, a.samples, a.tokens)
                        ask.save(kept, [e | {"judge": ask.judge_texts(judge, e)} for e in entries])
                    with open(kept, encoding="utf-8") as f:
                        out[sigma, setting] = json.load(f)
    return out


def point(entries):
    return {"distinct": [len(set(map(tuple, e["texts"]))) / len(e["texts"]) for e in entries],
            "self_bleu": [e["diversity"]["self_bleu"] for e in entries],
            "judge": [measure.mean(e["judge"]) for e in entries]}


def rows(texts):
    points = {at: point(entries) for at, entries in texts.items()}
    temperature = [p for (sigma, _), p in points.items() if sigma == "none"]
    for (sigma, setting), p in points.items():
        row = dict(zip(("sigma", "temperature", "noise_scale"), (sigma, *setting.split(","))))
        row["distinct"] = measure.mean(p["distinct"])
        for what in MEASURES[:2] if sigma == "none" else MEASURES:
            of = lambda i, w=what: (measure.gain_of(p, "judge", temperature, i) if w == "gain" else
                                    measure.mean([p[w][k] for k in i]))
            told = measure.bootstrap(of, len(p["judge"]), measure.RESAMPLES)
            row |= dict(zip((what, what + "_low", what + "_high"), told))
        yield row


def main():
    parser = argparse.ArgumentParser(description="noise in a model that was trained without, beside its temperature")
    for name in ("build", "runs", "out", "model", "judge"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--books", required=True, nargs="+")
    parser.add_argument("--budget", required=True, type=float)
    for name in ("prompts", "samples", "tokens"):
        parser.add_argument("--" + name, required=True, type=int)
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the daemons would outlive it
    os.makedirs(a.runs, exist_ok=True)
    make_models(a)
    texts = write(a, {"none": NONE, "fitted": NOISE, "equal": NOISE})
    columns = ["sigma", "temperature", "noise_scale", "distinct", *(m + end for m in MEASURES for end in ("", "_low", "_high"))]
    with open(a.out, "w", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, columns, restval="", lineterminator="\n")
        out.writeheader()
        for row in rows(texts):
            out.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items() if v is not None})


if __name__ == "__main__":
    main()
