/* test_trainer: what the trainer's tests share: a small text, a small model, and the real program as a child. */
#ifndef NOISED_TEST_TRAINER_H
#define NOISED_TEST_TRAINER_H

#include "weights/checkpoint.h"

#include <sys/types.h>

/* n bytes of lines of words, the same every time; malloc'ed. */
char *trainer_text(size_t n);
/* Writes such a text into a fresh folder; its path. */
const char *trainer_text_file(size_t n);
/* A fresh folder with config.json (2 layers, width 16, 32 positions, noise per head, 300 tokens); its path. */
const char *trainer_config_file(void);

typedef struct ChildResult {
    int status;   /* exit status, or 128 + the signal that killed it */
    char *output; /* standard output and error, malloc'ed */
} ChildResult;

/* Runs noised-train with the words of `args` (split at spaces, one thread) and waits. */
ChildResult trainer_run(const char *args);
void trainer_done(const char *args); /* the same, and the test fails unless it ends well */
/* Starts it, sends `signal_number` after `delay` seconds unless it has ended before, and waits. */
ChildResult trainer_run_killed(const char *args, double delay, int signal_number);
/* The same as soon as the file `path` has `bytes` bytes. */
ChildResult trainer_run_stopped(const char *args, const char *path, long bytes, int signal_number);
/* The same as soon as it has printed `text`. */
ChildResult trainer_run_stopped_at(const char *args, const char *text, int signal_number);

/* As root too, and with more ranks than cores, which then give way while they wait. */
#define TRAINER_MPIRUN                                                                                                 \
    "mpirun --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 --mca btl_vader_single_copy_mechanism "    \
    "none"
/* noised-train-mpi on n ranks; NULL, or why there can be none. */
const char *trainer_ranks_missing(void);
ChildResult trainer_run_ranks(int n, const char *args);
/* In two parts: the pid is mpirun's, whose children are the ranks. */
pid_t trainer_start_ranks(int n, const char *args, const char **output);
pid_t trainer_start_line(const char *line, const char **output); /* of words, the first a program */
ChildResult trainer_finish(pid_t pid, const char *output);

/* sha256 of a whole file. */
void trainer_hash_file(const char *dir, const char *name, char hex[65]);

#endif
