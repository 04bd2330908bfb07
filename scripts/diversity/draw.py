"""draw.py frontier.csv > frontier.svg: how good texts are against how much they differ, a curve for each noise and
one for temperature, with the intervals of both. Colours are Okabe and Ito's, which colour-blind readers tell
apart; each curve has a mark of its own too."""
import csv
import sys

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8860b", "#5b3a8e",
           "#882255", "#117733")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 520, 70, 20, 250, 60


def mark(kind, x, y, colour):
    r = 4
    if kind % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}"/>'
    if kind % 3 == 1:
        return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - r - 1:.1f} l{r + 1} {2 * r} h{-2 * r - 2} z" fill="{colour}"/>'


def ticks(low, high, step):
    first = int(low / step) - 1
    return [i * step for i in range(first, int(high / step) + 2) if low <= i * step <= high]


class Plot:
    def __init__(self, rows):
        xs = [1 - float(r["self_bleu_low"]) for r in rows]
        ys = [float(r[k]) for r in rows for k in ("judge_low", "judge_high")]
        self.x0, self.x1 = 0.0, max(xs) * 1.02 + 1e-3
        pad = 0.05 * (max(ys) - min(ys)) + 1e-3
        self.y0, self.y1 = min(ys) - pad, max(ys) + pad

    def x(self, v):
        return LEFT + (v - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, v):
        return TOP + (self.y1 - v) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def axes(self):
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for v in ticks(self.x0, self.x1, 0.1):
            yield f'<path d="M{self.x(v):.1f} {TOP} V{bottom}" stroke="#ddd"/>'
            yield f'<text x="{self.x(v):.1f}" y="{bottom + 18}" text-anchor="middle">{v:.1f}</text>'
        for v in ticks(self.y0, self.y1, 0.1 if self.y1 - self.y0 < 1 else 0.5):
            yield f'<path d="M{LEFT} {self.y(v):.1f} H{right}" stroke="#ddd"/>'
            yield f'<text x="{LEFT - 8}" y="{self.y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>'
        yield (f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 14}" text-anchor="middle">'
               "how much the texts differ: 1 - self-BLEU</text>")
        yield (f'<text transform="translate(18 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
               "log-probability of a token, by the judge</text>")

    def curve(self, i, name, rows):
        colour = COLOURS[i % len(COLOURS)]
        points = [(self.x(1 - float(r["self_bleu"])), self.y(float(r["judge"])), r) for r in rows]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
        dash = "" if i == 0 else f' stroke-dasharray="{3 + i % 4 * 3} 3"'
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        for x, y, r in points:
            low, high = (self.y(float(r[k])) for k in ("judge_low", "judge_high"))
            left, right = (self.x(1 - float(r[k])) for k in ("self_bleu_high", "self_bleu_low"))
            bars = f"M{x:.1f} {low:.1f} V{high:.1f} M{left:.1f} {y:.1f} H{right:.1f}"
            yield f'<path d="{bars}" stroke="{colour}" opacity="0.4"/>'
            yield f"<g><title>{name}: {r['told']}</title>{mark(i, x, y, colour)}</g>"
        y = TOP + 14 + 20 * i
        yield mark(i, WIDTH - RIGHT + 22, y - 4, colour)
        yield f'<text x="{WIDTH - RIGHT + 34}" y="{y}">{name}</text>'


def picture(curves):
    """The lines of an svg. curves: {name: rows}; a point's `told` is what a reader sees who points at it."""
    plot = Plot([r for c in curves.values() for r in c])
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="13" role="img"><title>How good texts are against how much they differ</title>')
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    yield from plot.axes()
    for i, (name, own) in enumerate(curves.items()):
        yield from plot.curve(i, name, own)
    yield "</svg>"


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    rows.sort(key=lambda r: (float(r["temperature"]), float(r["noise_scale"])))
    for r in rows:
        r["told"] = f"T {r['temperature']}, noise_scale {r['noise_scale']}"
    noisy = [r for r in rows if float(r["temperature"]) == 0 and float(r["noise_scale"]) > 0]
    # Temperature goes on far to the right of where any noise gets.
    limit = 2 * max(1 - float(r["self_bleu"]) for r in noisy) + 0.05
    curves = {"temperature, no noise": [r for r in rows if r["member"] == "none" and 1 - float(r["self_bleu"]) < limit]}
    for r in noisy:
        curves.setdefault(f"{r['member']}, T 0", []).append(r)
    print("\n".join(picture(curves)))


if __name__ == "__main__":
    main()
