"""Pictures of experiments as SVG: curves by step, bars by group. Only Python's standard library is used."""
import math

from statistic import deviation, mean

# Of a qualitative palette that colour-blind people can tell apart (Okabe and Ito 2008).
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"]


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def svg(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12">\n'
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}</svg>\n')


def ticks(low, high, n=5):
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9) / n))
    step = next(step * k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= n + 1)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, int(math.floor(high / step + 1e-9)) + 1)]


def curves(title, x_label, y_label, lines):
    """lines: {name: [[y of every x] of every seed]}, with x 1, 2, ...; the mean, and a band of one deviation. None: no seed
    has a line."""
    lines = {name: runs for name, runs in lines.items() if runs}
    if not lines:
        return None
    width, height, left, right, top, bottom = 720, 400, 60, 190, 40, 50
    n = max(len(run) for runs in lines.values() for run in runs)
    low = min(min(r) for runs in lines.values() for r in runs)
    high = max(max(r) for runs in lines.values() for r in runs)
    pad = 0.05 * (high - low or 1)
    low, high = low - pad, high + pad

    def place(x, y):
        return (left + (width - left - right) * (x - 1) / max(n - 1, 1),
                height - bottom - (height - top - bottom) * (y - low) / (high - low))

    out = [f'<text x="{left}" y="24" font-size="15">{escape(title)}</text>']
    for y in ticks(low, high):
        _, v = place(1, y)
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{v:.1f}" y2="{v:.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 6}" y="{v + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in sorted({1, n, *(round(t) for t in ticks(1, n) if 1 <= t <= n)}):
        u, _ = place(x, low)
        out.append(f'<text x="{u:.1f}" y="{height - bottom + 18}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">{escape(x_label)}</text>'
               f'<text x="14" y="{top + 60}" transform="rotate(-90 14 {top + 60})">{escape(y_label)}</text>')
    for i, (name, runs) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        columns = [[r[k] for r in runs if k < len(r)] for k in range(max(map(len, runs)))]
        points = [place(k + 1, mean(c)) for k, c in enumerate(columns)]
        upper = [place(k + 1, min(mean(c) + deviation(c), high)) for k, c in enumerate(columns)]
        lower = [place(k + 1, max(mean(c) - deviation(c), low)) for k, c in enumerate(columns)]
        band = " ".join(f"{x:.1f},{y:.1f}" for x, y in upper + lower[::-1])
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polygon points="{band}" fill="{colour}" opacity="0.18"/>'
                   f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<line x1="{width - right + 12}" x2="{width - right + 36}" y1="{top + 8 + 20 * i}" '
                   f'y2="{top + 8 + 20 * i}" stroke="{colour}" stroke-width="3"/>'
                   f'<text x="{width - right + 42}" y="{top + 12 + 20 * i}">{escape(name)}</text>')
    return svg(width, height, "\n".join(out) + "\n")


def bars(title, y_label, groups, lines=()):
    """groups: {group: {name: values of the seeds}}; lines: [(label, y)] drawn across, such as a baseline."""
    names = list(dict.fromkeys(name for members in groups.values() for name in members))
    width, height, left, top, bottom = 720, 380, 60, 60, 60
    values = [v for g in groups.values() for vs in g.values() for v in vs] + [y for _, y in lines]
    low, high = min(0, min(values)), max(values) * 1.08 or 1

    def at(y):
        return height - bottom - (height - top - bottom) * (y - low) / (high - low)

    out = [f'<text x="{left}" y="24" font-size="15">{escape(title)}</text>']
    for y in ticks(low, high):
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{at(y):.1f}" y2="{at(y):.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 6}" y="{at(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    slot = (width - left - 10) / len(groups)
    for g, (group, members) in enumerate(groups.items()):
        bar = slot * 0.8 / len(names)
        for i, name in enumerate(names):
            if name not in members:
                continue
            m, d, x = mean(members[name]), deviation(members[name]), left + slot * (g + 0.1) + bar * i
            out.append(f'<rect x="{x:.1f}" y="{min(at(m), at(0)):.1f}" width="{bar * 0.9:.1f}" '
                       f'height="{abs(at(m) - at(0)):.1f}" fill="{COLOURS[i % len(COLOURS)]}"/>'
                       f'<line x1="{x + bar * 0.45:.1f}" x2="{x + bar * 0.45:.1f}" y1="{at(m - d):.1f}" '
                       f'y2="{at(m + d):.1f}" stroke="#000000"/>')
        out.append(f'<text x="{left + slot * (g + 0.5):.1f}" y="{height - bottom + 18}" '
                   f'text-anchor="middle">{escape(group)}</text>')
    for i, name in enumerate(names):
        out.append(f'<rect x="{left + 150 * i}" y="36" width="12" height="12" fill="{COLOURS[i % len(COLOURS)]}"/>'
                   f'<text x="{left + 150 * i + 18}" y="46">{escape(name)}</text>')
    for label, y in lines:
        out.append(f'<line x1="{left}" x2="{width - 10}" y1="{at(y):.1f}" y2="{at(y):.1f}" stroke="#000000" '
                   f'stroke-dasharray="4 3"/><text x="{width - 12}" y="{at(y) - 4:.1f}" '
                   f'text-anchor="end">{escape(label)}</text>')
    out.append(f'<text x="14" y="{top + 80}" transform="rotate(-90 14 {top + 80})">{escape(y_label)}</text>')
    return svg(width, height, "\n".join(out) + "\n")
