#include "trainer/mpi/ranks_mpi.h"

#include "base/memory.h"
#include "base/options/options.h"
#include "trainer/mpi/heartbeat.h"
#include "trainer/ranks/ranks.h"

#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MPI counts in int. */
static const size_t MOST = (size_t)1 << 30;

static Ranks mpi;

static void sum(const int64_t *data, const int *counts, int64_t *mine) {
    MPI_Reduce_scatter(data, mine, counts, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static int *starts; /* [ranks] of the pieces */

static void spread(void *data, const int *bytes) {
    for (int r = 1; r < mpi.n; r++) starts[r] = starts[r - 1] + bytes[r - 1];
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, bytes, starts, MPI_BYTE, MPI_COMM_WORLD);
}

static void gather(const void *mine, size_t n, void *all) {
    BUG_ON(n > MOST);
    MPI_Allgather(mine, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, MPI_COMM_WORLD);
}

static Ranks mpi = {.sum = sum, .spread = spread, .gather = gather};

int ranks_mpi_start(Err *err) {
    int level; /* the heartbeat has a thread of its own */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS || level < MPI_THREAD_MULTIPLE)
        return err_set(err, "MPI cannot start with threads that call it at once (MPI_THREAD_MULTIPLE)");
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi.n);
    starts = xcalloc((size_t)mpi.n, sizeof *starts);
    if (gethostname(mpi.host, sizeof mpi.host - 1)) snprintf(mpi.host, sizeof mpi.host, "unknown");
    ranks = &mpi;
    /* Rank 0 tells what there is to tell. Errors are everybody's. */
    if (mpi.rank && !freopen("/dev/null", "w", stdout)) return err_set(err, "/dev/null: %s", strerror(errno));
    return heartbeat_start(&mpi, err);
}

/* A command line that cannot be read is told of before the start. */
void ranks_mpi_tell(const char *who, const char *message, int status) {
    int began;
    MPI_Initialized(&began);
    if (!began) ranks_mpi_start(NULL);
    heartbeat_tell(who, message, status);
}

void ranks_mpi_end(int status) {
    if (ranks != &mpi) return;
    if (status == EXIT_FAILED || status == EXIT_USAGE) MPI_Abort(MPI_COMM_WORLD, status);
    heartbeat_stop();
    MPI_Finalize();
    free(starts);
}
