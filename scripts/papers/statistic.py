"""Means, deviations and paired differences of seeds, as pages tell them."""
import math


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    """Of a sample: n - 1 below."""
    m = mean(values)
    return math.sqrt(sum((v - m) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0


def signed(value, digits):
    return f"{value:+.{digits}f}".replace("-", "−")


def told(values, digits=2, unit=1):
    """mean ± deviation"""
    return f"{unit * mean(values):.{digits}f} ± {unit * deviation(values):.{digits}f}" if values else "not run"


def student(freedom):
    """Student's t at 97.5%: trainer/report/paired.c, which `noised-train compare` counts by."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        odd, total = freedom % 2, 0.0
        term = math.cos(angle) if odd else 1.0
        for k in range(odd, freedom - 1, 2):
            total += term
            term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
        within = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
        low, high = (angle, high) if within < 0.95 else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def difference(a, b):
    """Mean of a - b of paired runs and the half of its 95% interval."""
    d = [x - y for x, y in zip(a, b)]
    half = student(len(d) - 1) * deviation(d) / math.sqrt(len(d)) if len(d) > 1 else math.inf
    return mean(d), half


def compared(a, b, digits=3, unit=1):
    """The difference of paired runs as a page has it."""
    if not a:
        return "not run"
    d, half = difference(a, b)
    return signed(unit * d, digits) + (f" ± {unit * half:.{digits}f}" if len(a) > 1 else " (one seed)")


def verdict(claimed, a, b, least=0):
    """Of a claim that a - b has the sign of `claimed` and is more than `least` in that direction."""
    if not a:
        return ""
    d, half = difference(a, b)
    d = d if claimed > 0 else -d
    return "agrees" if d - half > least else "does not" if d + half < least else "cannot tell"


def times_fewer(curve, other):
    """Of evaluations: how many times fewer `curve` needs to come to the last loss of `other`; NaN: it does not."""
    reached = next((k + 1 for k, loss in enumerate(curve) if loss <= other[-1]), None)
    return len(other) / reached if reached else math.nan
