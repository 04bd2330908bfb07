# RUNS/timing/<member>.<round>.jsonl -> timing.csv: the median time of a run's steps, the first two left out.
function finish() { if (n) printf "%s,%s,%.2f\n", member, number, median(ms, n) }

BEGIN { print "member,round,step_ms" }
FNR == 1 {
    finish()
    n = 0
    depth = split(FILENAME, path, "/")
    sub(/\.jsonl$/, "", path[depth])
    split_run(path[depth])
}
FNR > 2 { ms[++n] = 1000 * tokens / field("tokens_per_second") }
END { finish() }
