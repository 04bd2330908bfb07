"""draw_takeover.py TRACE > takeover.svg: one answer whose daemons are killed, how many tokens its client has against time.

TRACE is what the test writes: TAKEOVER_TRACE=TRACE build/run-tests takeover_of_killed. A colour is a daemon, a dashed
line a kill; where the line of tokens is flat the next daemon computes again what the client has."""
import json
import sys

COLOURS = {"a": "#0072b2", "b": "#d55e00", "c": "#009e73"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 340, 60, 40, 20, 50


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    events = [r for r in rows if "tokens" in r]
    start, end, most = events[0]["at"], events[-1]["at"], events[-1]["tokens"]
    span = end - start

    def x(at):
        return LEFT + (at - start) / span * (WIDTH - LEFT - RIGHT)

    def y(tokens):
        return TOP + (1 - tokens / most) * (HEIGHT - TOP - BOTTOM)

    bottom = HEIGHT - BOTTOM
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
          'font-family="sans-serif" font-size="13" role="img"><title>A stream whose daemons are killed</title>')
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    for tokens in range(0, most + 1, 50):
        print(f'<path d="M{LEFT} {y(tokens):.1f} H{WIDTH - RIGHT}" stroke="#ddd"/>'
              f'<text x="{LEFT - 8}" y="{y(tokens) + 4:.1f}" text-anchor="end">{tokens}</text>')
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if span / s <= 12)
    for i in range(int(span / step) + 1):
        print(f'<text x="{x(start + i * step):.1f}" y="{bottom + 18}" text-anchor="middle">{i * step:g}</text>')
    print(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">seconds</text>')
    print(f'<text transform="translate(16 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
          'tokens that the client has</text>')
    print(f'<text x="{LEFT}" y="14">kill -9 of daemon</text>')
    for r in rows:
        if "killed" in r and start <= r["at"] <= end:
            at, colour = x(r["at"]), COLOURS[r["killed"]]
            print(f'<path d="M{at:.1f} {TOP} V{bottom}" stroke="{colour}" stroke-dasharray="3 4"/>'
                  f'<text x="{at:.1f}" y="{TOP - 6}" text-anchor="middle" fill="{colour}">{r["killed"]}</text>')
    path = " ".join(f"{'H' if i else 'M'}{x(r['at']):.1f} {'V' if i else ''}{y(r['tokens']):.1f}" for i, r in enumerate(events))
    print(f'<path d="{path}" fill="none" stroke="#999"/>')
    for attempt in sorted({r["attempt"] for r in events}):
        own = [r for r in events if r["attempt"] == attempt]
        colour = COLOURS[own[0]["replica"]]
        path = " ".join(f"{'L' if i else 'M'}{x(r['at']):.1f} {y(r['tokens']):.1f}" for i, r in enumerate(own))
        print(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for r in own:
            print(f'<circle cx="{x(r["at"]):.1f}" cy="{y(r["tokens"]):.1f}" r="2" fill="{colour}"/>')
    print("</svg>")


main()
