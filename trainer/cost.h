/* cost: what a training takes, told before it begins: bytes by model/footprint.h, time by a matrix product measured
 * here.
 *
 *     seconds of a token = (6 W + 6 A + 100 B) / rate
 *
 * W multiply-adds of a row in products with weights, A in scores and mixing over half a window (forward 2 operations
 * each, backward 4), B bytes of activations, rate the operations per second of a matrix product of the model's width.
 * That a byte costs as much as 100 operations is what trainings of 124M and smaller took, within a quarter; SAS
 * takes up to half as long again. */
#ifndef NOISED_COST_H
#define NOISED_COST_H

#include "model/transformer.h"

typedef struct CostMemory {
    size_t weights, activations; /* bytes; weights with their gradients and the optimizer's averages */
    size_t copy;                 /* that is saved while steps run (save.h) */
} CostMemory;

/* With `rows` tokens in each micro-batch of a step; in_slices: the weights (optimizer.h); m needs to be declared only.
 */
CostMemory cost_memory(const Model *m, int64_t rows, bool recompute, bool in_slices, int64_t micro_batches);

typedef struct CostDisk {
    size_t kept, more; /* bytes: of the checkpoints; of the largest file, which stands twice while it is replaced */
} CostDisk;

/* With `weights` folders of weights in so many bytes a number. */
CostDisk cost_disk(const Model *m, int weights, int width);

double cost_rate(int width);                      /* in f32 on the whole team; takes some ms */
double cost_seconds(const Model *m, double rate); /* of a token, without recomputation */

enum { COST_TIME = 32 };
const char *cost_time_text(double seconds, char out[COST_TIME]); /* "40 s", "13 min", "5.2 h", "61 days" */

#endif
