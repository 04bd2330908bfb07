#!/bin/bash
# Training on several machines under Slurm:  sbatch deploy/slurm.sh --config ... --data ... --accumulate 64
# The same line goes on where a job was stopped; options not given are those of the run then.
#SBATCH --job-name=noised-train
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=24:00:00
# Five minutes before the end the ranks are told to save; a job that has seen that begins again in the queue. So does one
# whose ranks died or hung; with --nodes=4-8 it goes on with as many as there are by then.
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
# A folder that all nodes see.
out=${OUT:-$PWD/runs/$SLURM_JOB_NAME}
# One rank a node, with a thread for each core. A rank that fails ends the step: what is on the disk is whole.
srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --cpu-bind=none \
    "${PROGRAM:-noised-train-mpi}" pretrain --resume --out "$out" "$@"
status=$?
# 143: told to stop; 75: a rank hung; 134 to 139: one was killed or crashed.
case $status in
    143) scontrol requeue "$SLURM_JOB_ID" ;;
    75 | 13[4-9]) [ "${SLURM_RESTART_COUNT:-0}" -ge 20 ] || scontrol requeue "$SLURM_JOB_ID" ;;
esac
exit "$status"
