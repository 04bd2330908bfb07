# What the programs of this folder share.

# The number behind "key": in a line of log.jsonl.
function field(key,   from) {
    if (!match($0, "\"" key "\":[-+.e0-9]+")) return ""
    from = length(key) + 3
    return substr($0, RSTART + from, RLENGTH - from) + 0
}

# Splits a name as in "mha.3" at its last dot: sets member and number.
function split_run(name) {
    member = number = name
    sub(/\.[^.]*$/, "", member)
    sub(/.*\./, "", number)
}

# Sorts names[1..n] by key[name], smallest first.
function sort_by(names, n, key,   i, j, name) {
    for (i = 2; i <= n; i++) {
        name = names[i]
        for (j = i - 1; j >= 1 && key[names[j]] > key[name]; j--) names[j + 1] = names[j]
        names[j + 1] = name
    }
}

# Of value[1..n].
function median(value, n,   i, place) {
    for (i = 1; i <= n; i++) place[i] = i
    sort_by(place, n, value)
    return (value[place[int((n + 1) / 2)]] + value[place[int((n + 2) / 2)]]) / 2
}
