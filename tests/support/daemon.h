/* daemon: the real build/noised, started on a free port (but for an option --port) over a small checkpoint made for the
 * tests. */
#ifndef NOISED_TEST_DAEMON_H
#define NOISED_TEST_DAEMON_H

#include "model/config.h"
#include "model/tensor.h"
#include "tests/support/test.h"

#include <sys/types.h>

typedef struct Daemon {
    pid_t pid; /* 0: not running */
    int port;
    FILE *output; /* its stdout */
} Daemon;

typedef enum TestCheckpoint {
    CHECKPOINT_SMALL,   /* 512 positions, 300 tokens known to the tokenizer of 320, noise per head, well under 1 ms a
                           token */
    CHECKPOINT_QUIET,   /* the same without noise */
    CHECKPOINT_SLOW,    /* 65,536 positions, a full answer lasts for ever: for what must happen meanwhile */
    CHECKPOINT_CLASSES, /* SMALL, but it classifies texts: NEG and POS, by the mean row */
    CHECKPOINT_TAGS,    /* the same, words: O, B-PER, I-PER, B-LOC */
    CHECKPOINT_MASKS,   /* the same, token 7 being the mask */
    CHECKPOINT_IMAGES,  /* the same, grey images of 6 x 4 pixels, patches of 2: 0, 1, 2 */
    CHECKPOINT_PIXELS,  /* SMALL, but its tokens are pixels 0 to 15 of images of 6 x 4, behind a class [0] or [1] */
    CHECKPOINT_KINDS
} TestCheckpoint;

enum { TEST_EOS = 0, TEST_VOCAB = 320, TEST_PIECES = 300 };

/* The folder, made on first use and removed when the run ends; NULL (and a failed test) when that fails. */
const char *test_checkpoint(TestCheckpoint kind);

/* Writes such a folder, with other weights for another seed (test_checkpoint's is 1). False (and a failed test) when
 * that fails. */
bool test_checkpoint_write(const char *dir, TestCheckpoint kind, uint64_t seed);

/* The same for a config of one's own, 320 tokens to be known as above, in this precision. */
bool test_checkpoint_write_as(const char *dir, const Config *c, Dtype dtype, uint64_t seed);

/* options: further arguments, separated by single spaces, or NULL. False (and a failed test) when the daemon does not
 * come up within a minute. */
bool daemon_start(Daemon *d, TestCheckpoint kind, const char *options);
bool daemon_start_at(Daemon *d, const char *dir, const char *options);  /* dir NULL fails */
bool daemon_listen_at(Daemon *d, const char *dir, const char *options); /* the same, but only until it listens */

/* path becomes that of dir/keys, for --api-key-file: these lines, for nobody else's eyes. */
void keys_write(char path[256], const char *dir, const char *keys);

/* Where the log of the daemons started from now on goes; NULL: nowhere. Borrowed. */
void daemon_log_to(const char *path);
/* How often the log says it, waiting until it is so often. */
int daemon_log_says(const char *path, const char *what, int often);

/* SIGTERM, then waits up to a minute. The exit status, or -1 (and a failed test) when it had to be killed or crashed.
 */
int daemon_stop(Daemon *d);

int daemon_files(const Daemon *d); /* open descriptors */

/* Seconds of processor that it has taken. While it computes its clock runs as the wall's does, but for what the machine
 * makes it wait. */
double daemon_cpu_seconds(const Daemon *d);

/* Runs noised with options until it ends; its exit status. Its stderr goes to the string, malloc'ed. */
int daemon_run(const char *options, char **errors);

#endif
