/* test_mpi: a run of noised-train, and the same on ranks of noised-train-mpi. */
#ifndef NOISED_TEST_MPI_H
#define NOISED_TEST_MPI_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct MpiRun {
    const char *dir, *text, *config; /* --data; trainer_config_file */
    char args[1024];                 /* of all runs */
} MpiRun;

MpiRun mpi_open(const char *args);
/* "pretrain ..." into the folder `name` of dir. */
void mpi_args(char args[2048], const MpiRun *m, const char *name, const char *more);
/* To its end; 0 ranks: noised-train. */
void mpi_train(const MpiRun *m, int n, const char *name, const char *more);
void mpi_check_same(const MpiRun *m, const char *a, const char *b); /* the files of two folders */
int mpi_lines(const char *output);                                  /* that noised-train-mpi says of a failure */

/* Waits until n ranks are there of a job, mpirun or what has started it; false when that has ended before. */
bool mpi_find_ranks(pid_t job, pid_t *found, int n);
void mpi_check_gone(int n, const pid_t *found);
int mpi_log_lines(const MpiRun *m, const char *name); /* of the run in that folder: its steps */
void mpi_deny_writes(pid_t victim);                   /* as if its disk were full */
void mpi_fill(const char *path, long leave);          /* a file system but for so many bytes, with a file of its own */

#endif
