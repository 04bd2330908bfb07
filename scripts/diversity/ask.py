"""Has the models of a study write and judge, through the daemon, and keeps what they say:
RUNS/texts/<member>/<setting>.json, one file a setting, none asked twice. A setting is "T,S", temperature and
noise_scale; "T,S,seeds" is the one that asks whether a seed means something: every noise seed draws several
texts.

    {"prompts": [{"prompt": [ids], "texts": [[ids], ...], "noise_seeds": [...], "diversity": {...},
                  "judge": [mean log-probability of each text's tokens], "twin": [...],
                  "books": [[probabilities of the books: of the first half, the second half, the whole], ...]}, ...]}
The probabilities are those of the classifier RUNS/reader, in the order of its labels."""
import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys

TEMPERATURES = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
SCALES = (0.5, 1, 2, 4, 8)
MANNERS = ("0.7,1,seeds", "0.7,2,seeds")


def settings(member):
    """By temperature alone, by noise alone, and both."""
    temperature = ["0,0"] + [f"{t},0" for t in TEMPERATURES]
    if member == "none":
        return temperature + ["0.7,0,seeds"]
    return temperature + [f"{t},{s}" for t in (0, 0.3) for s in SCALES] + list(MANNERS)


@contextlib.contextmanager
def serving(noised, model):
    """-> ask(path, body): the daemon's answer. It is there until the block ends; its log is MODEL.log."""
    command = [noised, "--model", model, "--port", "0"]
    with (open(model + ".log", "w") as log,
          subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as daemon):
        try:
            for line in daemon.stdout:
                at = re.match(r"listening on http://(\S+)", line)
                if at:
                    break
            else:
                raise SystemExit(f"diversity: {noised} --model {model} does not serve: {model}.log")

            def ask(path, body):
                connection = http.client.HTTPConnection(at[1], timeout=600)
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200:
                    raise SystemExit(f"diversity: {path} answered {answer.status}: {text.decode()}")
                return json.loads(text)

            yield ask
        finally:
            daemon.terminate()


def held_out(path, n, words=8):
    """n beginnings of lines, evenly spaced over the last 5% of a text, which nothing was trained on."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    lines = [line.split() for line in text[len(text) * 96 // 100 :].split("\n")]
    lines = [" ".join(line[:words]) for line in lines if len(line) >= words]
    if len(lines) < n:
        raise SystemExit(f"diversity: {path} has {len(lines)} lines to begin with in its last 4%, {n} are needed")
    return [lines[i * len(lines) // n] for i in range(n)]


def tokens_of(ask, text):
    return ask("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]


def write_texts(ask, setting, prompts, n, length):
    temperature, scale, *seeds = setting.split(",")
    out = []
    for p, prompt in enumerate(prompts):
        body = {"prompt": prompt, "n": n, "max_tokens": length, "temperature": float(temperature),
                "noise_scale": float(scale), "seed": p, "noise_seed": p, "ignore_eos": True, "return_token_ids": True}
        groups = [body | {"diversity": True}]
        if seeds:  # a quarter of the texts for each of four times as many seeds as choices
            each = max(2, n // 8)
            groups = [body | {"n": each, "seed": 1000 * p + s, "noise_seed": [s] * each} for s in range(max(4, n // 4))]
        answers = [ask("/v1/completions", g) for g in groups]
        choices = [c for a in answers for c in a["choices"]]
        out.append({"prompt": prompt, "texts": [c["token_ids"] for c in choices],
                    "noise_seeds": [s for g in groups for s in (g["noise_seed"] if seeds else [p])],
                    "diversity": answers[0].get("diversity", [None])[0]})
    return out


def judge_texts(ask, entry):
    """The mean log-probability of a text's tokens, given the prompt, without noise."""
    n, scores = len(entry["prompt"]), []
    for first in range(0, len(entry["texts"]), 32):
        answer = ask("/v1/completions", {
            "prompt": [entry["prompt"] + t for t in entry["texts"][first : first + 32]], "max_tokens": 0, "echo": True,
            "logprobs": 0, "noise_scale": 0})
        for choice in sorted(answer["choices"], key=lambda c: c["index"]):
            told = choice["logprobs"]["token_logprobs"][n:]
            scores.append(sum(told) / len(told))
    return scores


def is_there(path):
    """Also false of what an earlier version wrote, which asked no classifier."""
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as f:
        return all("books" in entry for entry in json.load(f)["prompts"])


def save(path, value):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(value, f)
    os.replace(path + ".new", path)


def read_texts(ask, entry):
    """What book each text sounds like to the classifier."""
    parts = [p for t in entry["texts"] for p in (t[: len(t) // 2], t[len(t) // 2 :], t)]
    told = []
    for first in range(0, len(parts), 96):
        answer = ask("/v1/classify", {"input": parts[first : first + 96]})
        told += [d["probs"] for d in sorted(answer["data"], key=lambda d: d["index"])]
    return [told[i : i + 3] for i in range(0, len(told), 3)]


def main():
    parser = argparse.ArgumentParser(description="texts of all settings, written and judged")
    for name in ("noised", "runs"):
        parser.add_argument("--" + name, required=True)
    for name in ("books", "members"):
        parser.add_argument("--" + name, required=True, nargs="+")
    for name in ("prompts", "samples", "tokens"):
        parser.add_argument("--" + name, required=True, type=int)
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the daemons would outlive it
    per_book = -(-a.prompts // len(a.books))
    beginnings = [b for book in a.books for b in held_out(book, per_book)][: a.prompts]
    model = lambda name: os.path.join(a.runs, name)
    with (serving(a.noised, model("judge")) as judge, serving(a.noised, model("none")) as twin,
          serving(a.noised, model("reader")) as reader):
        prompts = [tokens_of(judge, b) for b in beginnings]
        for member in a.members:
            folder = os.path.join(a.runs, "texts", member)
            os.makedirs(folder, exist_ok=True)
            missing = [s for s in settings(member) if not is_there(os.path.join(folder, s + ".json"))]
            if not missing:
                continue
            with serving(a.noised, model(member)) as ask:
                for setting in missing:
                    some = prompts[:: max(1, len(prompts) // 4)][:4] if setting.endswith("seeds") else prompts
                    entries = write_texts(ask, setting, some, a.samples, a.tokens)
                    for entry in entries:
                        entry |= {"judge": judge_texts(judge, entry), "twin": judge_texts(twin, entry),
                                  "books": read_texts(reader, entry)}
                    save(os.path.join(folder, setting + ".json"), {"prompts": entries})
            print(f"diversity: {member} has written", flush=True)


if __name__ == "__main__":
    main()
