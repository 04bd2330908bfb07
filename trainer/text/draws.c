#include "trainer/text/draws.h"

#include "base/err.h"
#include "model/shape.h"

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

int draws_component(const Config *c, int named, NoiseKey *noise, Err *err) {
    int most = config_noise_components(c);
    if (named >= most && named >= 0)
        return err_set(err, "--noise-component is %d, the sequences of the model have %d components", named, most);
    noise->component = named + 1;
    return 0;
}
