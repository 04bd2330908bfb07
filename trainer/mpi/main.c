/* noised-train-mpi: the trainer on many machines, one process of mpirun on each. */
#include "base/omp_env.h"
#include "model/kernels/kernels.h"
#include "trainer/commands/commands.h"
#include "trainer/mpi/ranks_mpi.h"
#include "weights/map_guard.h"

static int start(Err *err) { return kernels_init(err) || map_guard_install(err) || ranks_mpi_start(err) ? -1 : 0; }

static const Program program = {
    .name = "noised-train-mpi",
    .summary = "train and judge a small language model on many machines: mpirun -np N noised-train-mpi pretrain ...",
    .commands = (const Command *const[]){&command_pretrain, &command_finetune, &command_eval, &command_score, NULL},
    .statuses =
        "75: a rank gave no sign of life; 129, 130 and 143: one was sent SIGHUP, SIGINT or SIGTERM, and the run "
        "is saved.",
    .start = start,
    .tell = ranks_mpi_tell,
};

int main(int argc, char **argv) {
    runtime_tune(argv);
    int status = program_main(&program, argc, argv);
    ranks_mpi_end(status);
    return status;
}
