/* ranks_mpi: the table of ranks.h by MPI. */
#ifndef NOISED_RANKS_MPI_H
#define NOISED_RANKS_MPI_H

#include "base/err.h"

/* Joins the others, and sets `ranks`. */
int ranks_mpi_start(Err *err);
/* A Program's `tell`. What fails on one rank ends the job, with one line that names it; what fails on all, alike or by
 * ranks_refuse, with one line of rank 0's. */
void ranks_mpi_tell(const char *who, const char *message, int status);
/* Waits for the others, unless the exit status is EXIT_FAILED or EXIT_USAGE: then ends them too. Harmless before the
 * start. */
void ranks_mpi_end(int status);

#endif
