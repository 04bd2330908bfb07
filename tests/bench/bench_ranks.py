"""Memory of a rank and bytes that it sends, measured here: RANKS (1,2,3,4,6,8) of CONFIG (mha-tiny with 4,000 tokens, a window
of 64 a micro-batch) at each of ACCUMULATE (8,32), on TEXT. Prints csv: what `memory:` says, the most that a process had, the
least of the ranks' most, and bytes of a step, MiB and MB. Messages go over the loopback of a network namespace of its own, so
that its counter is theirs alone; a step's bytes are the difference of two runs, of one and of two steps. Needs root."""
import glob
import os
import re
import subprocess
import sys
import tempfile

RANKS = [int(n) for n in os.environ.get("RANKS", "1,2,3,4,6,8").split(",")]
ACCUMULATE = [int(n) for n in os.environ.get("ACCUMULATE", "8,32").split(",")]
CONFIG = os.environ.get("CONFIG", "mha-tiny")
PROGRAM = os.path.join(os.environ.get("BUILD", "build"), "noised-train-mpi")
MPIRUN = "mpirun --allow-run-as-root --oversubscribe --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo"
UNITS = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
# Every rank leaves the most that it had behind; the counter is read when all are gone.
INSIDE = """ip link set lo up
%s -np %d sh -c '%s %s >$0.out.$OMPI_COMM_WORLD_RANK & pid=$!
while [ -e /proc/$pid ]; do grep -s VmHWM /proc/$pid/status >$0.now.$OMPI_COMM_WORLD_RANK && mv $0.now.$OMPI_COMM_WORLD_RANK \
$0.most.$OMPI_COMM_WORLD_RANK; sleep 0.05; done; wait $pid' %s || exit 1
awk '/lo:/ { print $2 }' /proc/net/dev"""


def run(folder, ranks, accumulate, steps):
    """(What was printed in MiB, the most of the ranks, the least of their most in MiB, bytes)."""
    name = f"{folder}/{ranks}.{accumulate}.{steps}"
    args = (f"pretrain --config {CONFIG} --data {os.environ['TEXT']} --vocab-size 4000 --out {name} --batch 1 "
            f"--window 64 --accumulate {accumulate} --steps {steps} --warmup 1 --val none --eval-every 0 --save-every 0 --threads 1")
    script = INSIDE % (MPIRUN, ranks, PROGRAM, args, name)
    done = subprocess.run(["unshare", "-n", "sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    with open(f"{name}.out.0", encoding="utf-8") as f:
        said = re.search(r"memory: ([\d.]+) (\w+) for .*, ([\d.]+) (\w+) for act", f.read())
    most = []
    for path in glob.glob(f"{name}.most.*"):
        with open(path, encoding="utf-8") as f:
            most.append(int(f.read().split()[1]) / 1024)
    if not said or len(most) != ranks:
        sys.exit(f"{ranks} ranks: not measured")
    printed = sum(float(said[i]) * UNITS[said[i + 1]] for i in (1, 3))
    subprocess.run(["rm", "-rf", name], check=True)
    return printed, max(most), min(most), int(done.stdout)


def main():
    print("ranks,accumulate,printed_mib,most_mib,least_mib,sent_mb")
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        for accumulate in ACCUMULATE:
            for ranks in RANKS:
                first = run(folder, ranks, accumulate, 1)
                second = run(folder, ranks, accumulate, 2)
                sent = (second[3] - first[3]) / ranks / 1e6
                print(f"{ranks},{accumulate},{second[0]:.0f},{second[1]:.0f},{second[2]:.0f},{round(sent)}", flush=True)


main()
