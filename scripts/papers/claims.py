"""The rows of docs/papers/README.md that kept runs decide, counted from them. A row is known by its claim."""
import csv
import os
import sys

import image_tokens
import lecture
import mlm
import ner
import noble
import noiseformer
import papers
import sas
import statistic
import trec
import vit
import weight_noise
import zero_shot

PAGE = os.path.join(papers.TOP, "docs", "papers", "README.md")


def paired(sign, digits, unit, *comparisons, least=0):
    """Of (a, b, words), the seeds' results that pair, where there are any: (texts, verdicts)."""
    comparisons = [c for c in comparisons if c[0]]
    told = [statistic.compared(a, b, digits, unit) + words for a, b, words in comparisons]
    return told, [statistic.verdict(sign, a, b, least) for a, b, _ in comparisons]


def family(member, other, protocol="own", words=""):
    """Of docs/family/runs.csv, whose seeds all pair."""
    with open(os.path.join(papers.TOP, "docs", "family", "runs.csv"), encoding="utf-8", newline="") as f:
        runs = [r for r in csv.DictReader(f) if r["protocol"] == protocol]
    a, b = ([float(r["val_loss"]) for r in runs if r["member"] == name] for name in (member, other))
    return a, b, words


def of(experiment, measure, a, b, words=""):
    return *experiment.kept().pairs(measure, a, b), words


def noble_against(experiment, measure, key=lambda name: name, words="", name="NOBLE"):
    """The paper's contrast, what is left of it beside the start alone, and beside the start of our other networks."""
    hosts = {"kaiming": "", "start": " beside its start alone", "plain": " beside a start of 0.02"}
    return [of(experiment, measure, key(name), key(host), words + more) for host, more in hosts.items()]


def zero_shot_points():
    """SAS minus MHA task by task; each was trained once, so that the questions are all that an interval can be of."""
    kept, points, clear = zero_shot.experiment.kept(), [], []
    for task in dict.fromkeys(task for task, _ in kept.names()):
        (a, x), (b, y) = ([kept.values(m, (task, name))[0] for m in ("score", "stderr")] for name in ("SAS", "MHA"))
        points.append(100 * (a - b))
        if abs(a - b) > 1.96 * (x * x + y * y) ** 0.5:
            clear.append("agrees" if a > b else "does not")
    return [f"{statistic.signed(min(points), 1)} to {statistic.signed(max(points), 1)} points by task, both at chance"], (
        clear or ["cannot tell"])


def trec_gains():
    kept = trec.experiment.kept()
    sizes = [key for key in kept.names() if key[0].startswith("narrow") and key[1] == "layer-before"]
    return paired(1, 1, 100, *((*kept.pairs("accuracy", key, (key[0], "none", "0")), f" `{key[0]}`, sigma {key[2]}")
                               for key in sizes), least=0.1)


def ner_differences():
    kept = ner.experiment.kept()
    told = [statistic.compared(*kept.pairs("accuracy", key, weight_noise.quiet(key)), 2, 100) + f" `{key[0]}` {key[1]}"
            + ("" if ner.learnt(kept, key[0]) else ", hardly above the majority") for key in ner.noisy(kept)]
    return told, [ner.verdict(kept, key).split(":")[0] for key in ner.noisy(kept)]


def lecture_scores():
    kept = lecture.experiment.kept()
    scores = [f"{statistic.mean(kept.values('accuracy', name)):.1f}%" for name in lecture.NETWORKS]
    return ["TREC {1}; with a residual {2}, a transformer {0}".format(*scores)], [""]


def vit_of(measure):
    def of_mixing(mixing):
        return noble_against(vit.experiment, measure, lambda name: (name, mixing), "" if mixing == "none" else " mixed")
    return [c for mixing in vit.experiment.kept().plan["AUGMENTATION"].split() for c in of_mixing(mixing)]


# claim, its number, page, what the runs say
def claims():
    noise = lambda a, b: of(noiseformer.experiment, "loss", a, b)
    sas_of = lambda a, b, words="": of(sas.experiment, "loss", a, b, words)
    return [
        ("validation loss: symmetric above plain attention", "about +0.07", "", paired(1, 3, 1, family("symmetric", "mha"))),
        ("V1 above symmetric", "+0.038", "noiseformer.md", paired(1, 4, 1, noise("v1", "symmetric"))),
        ("V2 below symmetric", "−0.008", "noiseformer.md", paired(-1, 4, 1, noise("v2", "symmetric"))),
        ("conditioned noise below symmetric", "not told", "noiseformer.md", paired(-1, 4, 1, noise("conditioned", "symmetric"))),
        ("loss below plain attention", "−0.049", "", paired(
            -1, 3, 1, family("sas-k5", "mha"), family("sas-k5", "mha", "parameters", " at equal parameters"))),
        ("the same, RoPE after the mapping", "−0.067", "sas.md", paired(
            -1, 3, 1, sas_of("sas", "mha"), sas_of("sas-learned", "mha-learned", " with learned positions"))),
        ("the same, windows half and twice as long (Figures 2, 3)", "−0.049; −0.073", "sas.md", paired(-1, 3, 1, *(
            sas_of(f"sas-window-{w}", f"mha-window-{w}", f" of {w}") for w in (64, 256)))),
        ("the same, models smaller and larger (Figure 4)", "−0.049; −0.026", "sas.md", paired(-1, 3, 1, *(
            sas_of(f"sas-width-{w}", f"mha-width-{w}", f" of width {w}") for w in (32, 128)))),
        ("simulated heads or features alone above both (Figure 5)", "+0.013; +0.029", "sas.md", paired(
            1, 3, 1, sas_of("sas-heads-only", "sas", " heads"), sas_of("sas-features-only", "sas", " features"))),
        ("no ReLU above ReLU (Figure 6)", "+0.013", "sas.md", paired(1, 3, 1, sas_of("sas-no-relu", "sas"))),
        ("zero-shot questions", "+1.58 to +2.83 points", "zero-shot.md", zero_shot_points()),
        ("causal loss below its host's", "−0.040, 5.7% more parameters", "noble.md",
         paired(-1, 3, 1, *noble_against(noble.experiment, "loss", name="rank-4"))),
        ("masked language model (Table 2)", "−0.021 to −0.063", "mlm.md",
         paired(-1, 3, 1, *noble_against(mlm.experiment, "loss"))),
        ("vision transformer, training loss (Table 3)", "−0.031; with Mixup and CutMix −0.039", "vit.md",
         paired(-1, 3, 1, *vit_of("loss"))),
        ("the same, top-1", "+0.14; +0.11", "vit.md", paired(1, 2, 1, *vit_of("top1"))),
        ("image tokens (Table 4)", "−0.024 to −0.041", "image-tokens.md",
         paired(-1, 3, 1, *noble_against(image_tokens.experiment, "loss"))),
        ("narrow transformers on TREC, layer-before", "about +20 points", "trec.md", trec_gains()),
        ("BiLSTM tagger: same accuracy, faster", "no difference", "ner.md", ner_differences()),
        ("none: a network is defined", "", "lecture.md", lecture_scores()),
    ]


def row(claim, number, page, said):
    """The row but for its paper and its command."""
    told, verdicts = "; ".join(said[0]), "; ".join(said[1] if len(set(said[1])) > 1 else said[1][:1])
    return f"| {claim} | {number} | {f'[{told}]({page})' if page else told} | {verdicts} |"


def page():
    """The page as its runs have it."""
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    for claim, *rest in claims():
        lines = [line for line in text.splitlines() if f"| {claim} |" in line]
        if len(lines) != 1:
            sys.exit(f"docs/papers/README.md: {len(lines)} rows claim \"{claim}\"")
        paper, command = lines[0].split(f"| {claim} |")[0], lines[0].rsplit("|", 2)[1]
        text = text.replace(lines[0], paper + row(claim, *rest) + command + "|")
    return text
