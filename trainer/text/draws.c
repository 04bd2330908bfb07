#include "trainer/text/draws.h"

#include "base/err.h"

#include <sys/random.h>

Sampling draws_sampling(const DrawOptions *d, uint64_t seed) {
    return (Sampling){.temperature = (float)d->temperature,
                      .top_k = d->top_k,
                      .top_p = (float)d->top_p,
                      .min_p = (float)d->min_p,
                      .typical_p = 1,
                      .repetition_penalty = (float)d->repetition_penalty,
                      .seed = seed};
}

uint64_t draws_seed(int64_t given) {
    uint64_t seed;
    if (given >= 0) return (uint64_t)given;
    BUG_ON(getrandom(&seed, sizeof seed, 0) != sizeof seed);
    return seed & SEED_MAX;
}
