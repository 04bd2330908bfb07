/* save: a checkpoint that is written while the next steps run.
 *
 *     save_begin      behind a step: copies what this rank owns, and lets a thread write it
 *     save_look       behind each step that follows: goes on if all ranks have come so far
 *     save_end        waits for all of it
 *
 * All ranks call each of them in the same places, and talk to each other there and nowhere else: the threads only
 * write. When every rank has its part on the disk, rank 0's thread commits (optimizer_file.h) and writes what stands
 * beside it. What is saved is the state of save_begin; when a part is over depends on time, and nothing else does.
 *
 * An error comes out of whichever of the three calls meets it, and ends the save; the file is as it was then, unless it
 * had been committed before. */
#ifndef NOISED_SAVE_H
#define NOISED_SAVE_H

#include "trainer/optimizer_file.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum SavePhase { SAVE_NONE, SAVE_SLICES, SAVE_COMMIT } SavePhase;

/* All zero to begin with, but for what says so. Must not move in memory while a save is open. */
typedef struct Save {
    /* Set before: what rank 0 writes behind the commit; NULL: nothing. */
    int (*accompany)(void *context, const OptimizerOut *out, Err *err);
    void *context;

    SavePhase phase;
    OptimizerOut out;
    float *copy;              /* [3, slices.owned], kept for the next one */
    bool beside, rest_beside; /* by a thread, this part and the next; otherwise one is over when it has begun */
    pthread_t thread;
    int (*part)(struct Save *s, Err *err);
    int rc; /* of the part, with err */
    Err err;
    atomic_bool over;
} Save;

size_t save_copy_memory(size_t n_params); /* bytes of this rank's copy */

/* o was initialised with ps; both are borrowed, and o may change at once. No other save is open. */
int save_begin(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);
/* The same without a copy: what this rank owns is written when it returns, and the thread has the rest. */
int save_begin_uncopied(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);
int save_look(Save *s, Err *err);
int save_end(Save *s, Err *err);
/* Begun and ended without a thread or a copy. */
int save_now(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);
/* By one rank, in any state: waits for its thread, and gives up what is not committed. */
void save_free(Save *s);

#endif
