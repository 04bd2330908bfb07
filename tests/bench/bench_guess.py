"""What --guess is worth, or --draft DRAFT: answers of the demo, or of CHECKPOINT, one stream at a time, of a daemon with it
and of one without by turns, on one thread each. The texts must be equal; the median over ROUNDS of the processor's time for a
token without, by that with it: above 1 it pays."""
import os
import statistics
import sys

from servers import daemon

LINE = "The honourable gentleman from the county of Kent was asked for his opinion, and gave it.\n"
BOOK = "It was a dark night, and the people of the house had gone to bed."
FEW = {str(token): 12 for token in range(300, 304)}
TEXTS = {
    "a text that repeats": {"prompt": 6 * LINE, "temperature": 0},
    "greedy": {"prompt": BOOK, "temperature": 0},
    "temperature 0.5": {"prompt": BOOK, "temperature": 0.5},
    "temperature 1": {"prompt": BOOK, "temperature": 1},
    "temperature 2": {"prompt": BOOK, "temperature": 2},
    "four tokens by lot": {"prompt": BOOK, "temperature": 1, "logit_bias": FEW},
}

checkpoint = os.environ.get("CHECKPOINT", "weights/demo")
ahead = ["--draft", os.environ["DRAFT"]] if os.environ.get("DRAFT") else ["--guess"]
taken = {name: ([], []) for name in TEXTS}
with daemon(checkpoint, "--threads", "1") as plain, daemon(checkpoint, "--threads", "1", *ahead) as guessing:
    for seed in range(int(os.environ.get("ROUNDS", "9")) + 1):
        for name, body in TEXTS.items():
            asked = dict(max_tokens=200, seed=seed, noise_seed=seed, ignore_eos=True, **body)
            answers = [server.complete(**asked) for server in (plain, guessing)]
            if answers[0][0]["choices"][0]["text"] != answers[1][0]["choices"][0]["text"]:
                sys.exit(f"{name}, seed {seed}: the texts differ")
            for times, answer in zip(taken[name], answers):
                times.append(answer[1])
for name, times in taken.items():
    without, with_it = (statistics.median(of[1:]) for of in times)  # the first warms up
    print(f"{name:20} {1e3 * without:8.3f} ms a token, with {ahead[0]} {1e3 * with_it:8.3f}  {without / with_it:5.2f}")
