# members.csv timing.csv curves.csv and the papers' claims (name|claim) -> table.md

# Sets mean and sd, over the seeds, of the member's final loss, minus that of base, if any.
function spread(member, base,   i, x, sum, squares) {
    sum = squares = 0
    for (i = 1; i <= n_seeds; i++) {
        x = final[member, seeds[i]] - (base == "" ? 0 : final[base, seeds[i]])
        sum += x
        squares += x * x
    }
    mean = sum / n_seeds
    sd = squares - n_seeds * mean * mean
    sd = sd > 0 && n_seeds > 1 ? sqrt(sd / (n_seeds - 1)) : 0
}

function step_time(member,   r, a) {
    for (r = 1; r <= n_rounds; r++) a[r] = ms[member, r]
    return median(a, n_rounds)
}

# Of the ratios within each round: what slowed a round down slowed both.
function step_ratio(member,   r, a) {
    for (r = 1; r <= n_rounds; r++) a[r] = ms[member, r] / ms["mha", r]
    return median(a, n_rounds)
}

function signed(x) { return x < 0 ? sprintf("−%.3f", -x) : sprintf("+%.3f", x) }

function row(rank, m,   loss, difference) {
    spread(m, "mha")
    difference = m == "mha" ? "" : signed(mean) sprintf(" ± %.3f", sd)
    spread(m, "")
    loss = sprintf("%.3f ± %.3f", mean, sd)
    printf "| %d | %s | %s | %s | %s | %d | %d | %.1f | %.2f | %s |\n", rank, m == "mha" ? "**mha**" : m, loss,
        difference, claim[m], parameters[m], width[m], step_time(m), step_ratio(m), kv[m]
}

FNR == 1 { file++ }
file < 4 && FNR == 1 { next }
file == 1 {
    names[++n_names] = $1
    parameters[$1] = $2
    width[$1] = $3
    kv[$1] = $4 == $5 ? $4 : $4 " (" $5 ")"
}
file == 2 {
    ms[$1, $2] = $3
    if ($2 > n_rounds) n_rounds = $2
}
file == 3 && $3 == steps {
    final[$1, $2] = $5
    total[$1] += $5
    if (!($2 in seen)) seeds[++n_seeds] = $2
    seen[$2] = 1
}
file == 4 { claim[$1] = $2 }

END {
    sort_by(names, n_names, total)
    print "# The family at equal parameters, data, tokens and seeds\n"
    print "Written by `make family`. Every member has the same base (" shape ","
    print "rmsnorm, rope, gated silu) and an MLP of such a width that all have the parameters of mha within 1%; each saw the same"
    printf "%d tokens in the same order (%d steps of %d) of the King James Bible, Moby-Dick and Sherlock Holmes.\n",
        steps * batch * positions, steps, batch * positions
    print "Optimiser AdamW, peak learning rate " lr ", the best for mha. What stands here is read in [README.md](README.md).\n"
    print "| rank | member | validation loss | against mha | paper says, against its baseline | parameters | MLP width " \
        "| step, ms | × mha | KV bytes a token |"
    print "|--:|---|---|---|---|--:|--:|--:|--:|--:|"
    for (i = 1; i <= n_names; i++) row(i, names[i])
    print "\n![loss against steps](loss-curves.svg)\n"
    print "- Validation loss: nats a token on the whole held-out 5%, noise on; mean and standard deviation over " n_seeds " seeds,"
    print "  which set initial weights, order of the data and noise. Against mha: differences of runs of the same seed, likewise."
    print "- Differences of the papers' perplexities are differences of their logarithms."
    print "- Step: one thread of " machine "; median of " n_rounds " rounds, measured after all"
    print "  training, one run at a time; × mha is the median of the ratios within a round."
    print "- KV: f32, all layers, in the form that serving takes by default; in brackets the compact form, where that is another."
    print "- In curves.csv the last evaluation of a run is on all held-out tokens, those before on 64 windows of them."
}
