"""How good probabilities are. An Opinion is what is told of one text or image: the probabilities of all labels; the place
of the right one (None: it is foreign); and how much of its doubt is between its samples, in nats (None: there is one)."""
import collections
import math

Opinion = collections.namedtuple("Opinion", "probs gold information")
BINS = 15
LEAST = 1e-30


def confidence(opinion):
    return max(opinion.probs)


def doubt(opinion):
    """The baseline of Hendrycks and Gimpel (2017)."""
    return 1 - confidence(opinion)


def right(opinion):
    return opinion.probs.index(confidence(opinion)) == opinion.gold


def entropy(probs):
    return -sum(p * math.log(p) for p in probs if p > 0)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def accuracy(opinions):
    return mean(map(right, opinions))


def log_loss(opinions):
    return mean(-math.log(max(o.probs[o.gold], LEAST)) for o in opinions)


def brier(opinions):
    return mean(sum((p - (k == o.gold)) ** 2 for k, p in enumerate(o.probs)) for o in opinions)


def calibration_error(opinions):
    """Between confidence and accuracy, the mean over BINS of equal width (Guo et al. 2017)."""
    bins = collections.defaultdict(list)
    for o in opinions:
        bins[min(int(confidence(o) * BINS), BINS - 1)].append(o)
    return sum(abs(sum(confidence(o) - right(o) for o in b)) for b in bins.values()) / len(opinions)


def auroc(low, high):
    """That one of `high` is above one of `low`; equals count half (Mann and Whitney's U)."""
    ranked = sorted([(v, False) for v in low] + [(v, True) for v in high])
    total, i = 0.0, 0
    while i < len(ranked):
        j = i
        while j < len(ranked) and ranked[j][0] == ranked[i][0]:
            j += 1
        total += sum(is_high for _, is_high in ranked[i:j]) * (i + j + 1) / 2
        i = j
    return (total - len(high) * (len(high) + 1) / 2) / (len(low) * len(high))


def of_errors(opinions):
    return auroc([doubt(o) for o in opinions if right(o)], [doubt(o) for o in opinions if not right(o)])


def of_foreign(own, foreign, measure):
    return auroc(list(map(measure, own)), list(map(measure, foreign)))


# ---- several opinions as one ----


def together(opinions):
    """Their mean, as the daemon takes that of noise samples."""
    probs = [mean(p) for p in zip(*(o.probs for o in opinions))]
    return Opinion(probs, opinions[0].gold, entropy(probs) - mean(entropy(o.probs) for o in opinions))


# ---- temperature (Guo et al. 2017) ----


def scaled(opinion, temperature):
    logs = [math.log(max(p, LEAST)) / temperature for p in opinion.probs]
    most = max(logs)
    weights = [math.exp(v - most) for v in logs]
    return opinion._replace(probs=[w / sum(weights) for w in weights])


def temperature(opinions):
    """Of the least log loss, which is convex in its inverse: by golden section between 1/20 and 20."""
    low, high, part = -math.log(20), math.log(20), (math.sqrt(5) - 1) / 2

    def loss(t):
        return log_loss([scaled(o, math.exp(t)) for o in opinions])

    for _ in range(24):
        a, b = high - part * (high - low), low + part * (high - low)
        low, high = (low, b) if loss(a) < loss(b) else (a, high)
    return math.exp((low + high) / 2)
