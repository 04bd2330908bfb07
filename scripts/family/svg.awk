# curves.csv -> loss-curves.svg: three panels (validation loss, training loss, validation loss against mha) and a legend in
# the order of the final loss. Mid-tone colours and a transparent ground read on light and on dark pages.
BEGIN {
    grey = "#767676"
    n = split("mha " grey " 4;gqa #3b82d6 2;mqa #3b82d6 2 5,3;mla #1aa0a8 2;tpa #1aa0a8 2 5,3;symmetric #d9534f 2;" \
              "pairwise #d9534f 2 5,3;noiseformer-v1 #d9822b 2 5,3;noiseformer-v2 #d9822b 2;mixture-noise #b8860b 2;" \
              "conditioned-noise #b8860b 2 5,3;sas #2e9e4f 2;noble #8a63d2 2;v2+sas+noble #d14fa0 2;" \
              "weight-noise " grey " 2 5,3", lines, ";")
    for (i = 1; i <= n; i++) {
        dashed = split(lines[i], part, " ") == 4
        style[part[1]] = "stroke=\"" part[2] "\" stroke-width=\"" part[3] "\"" \
            (dashed ? " stroke-dasharray=\"" part[4] "\"" : "")
    }
}

FNR == 1 { next }
{
    if (!($1 in seen)) names[++n_names] = $1
    if (!($2 in seen_seed)) n_seeds++
    if (!($3 in seen_step)) steps[++n_steps] = $3
    seen[$1] = seen_seed[$2] = seen_step[$3] = 1
    val[$1, $3] += $5
    train[$1, $3] += $4
}

# 1, 2 or 5 times a power of ten, so that at most about n of them make up range.
function nice(range, n,   raw, power) {
    raw = range / n
    power = exp(log(10) * int(log(raw) / log(10) - (raw < 1)))
    raw /= power
    return power * (raw <= 1 ? 1 : raw <= 2 ? 2 : raw <= 5 ? 5 : 10)
}

function text(x, y, anchor, size, words) {
    printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", x, y, anchor, size, words
}

function rule(x1, x2, y, attributes) {
    printf "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, x2, y, y, attributes
}

# The panel that follows: its place, and the values low..high that it shows.
function place(x, y, w, h, from, to) { left = x; top = y; wide = w; tall = h; low = from; high = to }
function at_x(step) { return left + wide * step / last }
function at_y(value) { return top + tall * (high - value) / (high - low) }

function axes(title,   unit, k, step) {
    text(left, top - 12, "start", 14, title)
    unit = nice(high - low, 8)
    for (k = int(low / unit) - 1; k * unit <= high + unit / 100; k++) {
        if (k * unit < low - unit / 100) continue
        rule(left, left + wide, at_y(k * unit), "stroke=\"" grey "\" stroke-opacity=\"" (k ? 0.25 : 0.8) "\"")
        text(left - 6, at_y(k * unit) + 4, "end", 11, sprintf("%.*f", unit < 0.0999 ? 2 : 1, k * unit))
    }
    unit = nice(last, 8)
    for (step = 0; step <= last; step += unit) text(at_x(step), top + tall + 16, "middle", 11, step)
    text(left + wide / 2, top + tall + 32, "middle", 11, "steps")
}

# The lines of value[member, step], minus those of base, if any; what leaves the panel is cut off. The best lie on top.
function curves(value, base,   i, s, m) {
    printf "<clipPath id=\"panel%d\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n", ++panels, left, top,
        wide, tall
    printf "<g clip-path=\"url(#panel%d)\" fill=\"none\" stroke-linejoin=\"round\">\n", panels
    for (i = n_names; i >= 1; i--) {
        m = names[i]
        printf "<polyline %s points=\"", style[m]
        for (s = 1; s <= n_steps; s++)
            printf "%.1f,%.1f ", at_x(steps[s]),
                at_y((value[m, steps[s]] - (base == "" ? 0 : value[base, steps[s]])) / n_seeds)
        printf "\"><title>%s</title></polyline>\n", m
    }
    print "</g>"
}

function legend(x, y,   i) {
    text(x, y, "start", 14, "final validation loss, best first")
    for (i = 1; i <= n_names; i++) {
        y += 21
        printf "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" %s/>\n", x, x + 34, y, y, style[names[i]]
        text(x + 44, y + 4, "start", 13, names[i])
        text(x + 230, y + 4, "end", 13, sprintf("%.3f", final[names[i]] / n_seeds))
    }
}

END {
    last = steps[n_steps]
    for (i = 1; i <= n_names; i++) final[names[i]] = val[names[i], last]
    sort_by(names, n_names, final)
    worst = final[names[n_names]] - final["mha"]
    best = final["mha"] - final[names[1]]
    reach = 1.3 * (worst > best ? worst : best) / n_seeds
    low = int(final[names[1]] / n_seeds * 10 - 1) / 10
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1000 800\" font-family=\"sans-serif\" fill=\"" grey "\">"
    print "<title>Loss of every member of the family against steps, mean over " n_seeds " seeds</title>"
    place(50, 40, 420, 310, low, low + 1.5)
    axes("validation loss, nats a token")
    curves(val, "")
    place(550, 40, 420, 310, low, low + 1.5)
    axes("training loss")
    curves(train, "")
    place(50, 430, 650, 320, -reach, reach)
    axes("validation loss minus that of mha")
    curves(val, "mha")
    legend(740, 432)
    print "</svg>"
}
