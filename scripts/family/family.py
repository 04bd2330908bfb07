"""family.py RUNS DOCS: trains every member of the family on the three books under three protocols (the paper's own
sizes, equal parameters, equal time), each at its best learning rate, and compares them with mha seed by seed.

Runs lie in RUNS; interrupted, it goes on where it was, and what is finished is not trained again. The documents in DOCS
are written anew after every seed of every protocol, from what there is. JOBS runs go side by side (as many as there
are processors), on one thread each: small matrices do not profit from a second. CORPUS (files) takes the place of the
books. plan.py has what changes the plan.
"""
import os
import subprocess
import sys

import plan
import report
from train import Trainer, say


def books(runs):
    if os.environ.get("CORPUS"):
        return os.environ["CORPUS"].split()
    folder = os.path.join(os.path.dirname(os.path.abspath(runs)), "corpus")
    subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus.sh"), folder], check=True)
    return [os.path.join(folder, name + ".txt") for name in ("sherlock", "mobydick", "kjv")]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: family.py RUNS DOCS")
    if plan.STEPS % plan.EVALUATIONS or plan.SWEEP % plan.EVALUATIONS:
        sys.exit(f"family: STEPS {plan.STEPS} and SWEEP {plan.SWEEP} must be multiples of {plan.EVALUATIONS}")
    runs, docs = sys.argv[1:]
    os.makedirs(runs, exist_ok=True)
    trainer = Trainer(runs, os.environ.get("BUILD", "build"), books(runs),
                      int(os.environ.get("JOBS", len(os.sched_getaffinity(0)))))
    trainer.train_all(run for m in plan.MEMBERS for run in plan.sweep(m))
    for protocol in plan.PROTOCOLS:
        for seed in plan.SEEDS:
            trainer.train_all([trainer.run(protocol, m, seed) for m in plan.MEMBERS])
            report.write(trainer, docs)
    say(f"wrote {docs}/table.md and {docs}/differences.svg")


if __name__ == "__main__":
    main()
