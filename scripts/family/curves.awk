# RUNS/<member>.<seed>/log.jsonl of all runs -> curves.csv: a line for every evaluation, with the mean training loss of the
# steps since the one before. A run that has not come to its last step is an error.
function finish() {
    if (run == "" || last == steps) return
    print "family: " run " has no validation loss at step " steps ", start again to go on" >"/dev/stderr"
    failed = 1
}

BEGIN { print "member,seed,step,train_loss,val_loss" }
FNR == 1 {
    finish()
    depth = split(FILENAME, path, "/")
    run = path[depth - 1]
    split_run(run)
    sum = count = last = 0
}
{ sum += field("loss"); count++ }
/"val_loss"/ {
    last = field("step")
    printf "%s,%s,%d,%.5f,%.5f\n", member, number, last, sum / count, field("val_loss")
    sum = count = 0
}
END { finish(); exit failed }
