/* draws: how tokens are drawn, as options of a command. */
#ifndef NOISED_DRAWS_H
#define NOISED_DRAWS_H

#include "base/options/options.h"
#include "base/random.h"
#include "model/config.h"
#include "model/sampler.h"

enum { DRAWS_PROMPT_BYTES = 1 << 17 }; /* as long as a word of Linux's command line may be */

typedef struct DrawOptions {
    int top_k;
    double temperature, top_p, min_p, repetition_penalty, noise_scale;
} DrawOptions;

/* Rows of an option table whose struct has its DrawOptions at `at`. */
#define DRAWS_OPTIONS(at)                                                                                              \
    {"noise-scale",   OPTION_REAL, (at) + offsetof(DrawOptions, noise_scale),   "X", 0,                                \
     NOISE_SCALE_MAX, "1",         .help = "factor on every sigma; 0: no noise"},                                      \
        {"temperature",                                                                                                \
         OPTION_REAL,                                                                                                  \
         (at) + offsetof(DrawOptions, temperature),                                                                    \
         "X",                                                                                                          \
         0,                                                                                                            \
         2,                                                                                                            \
         "0.8",                                                                                                        \
         .help = "0: always the likeliest token"},                                                                     \
        {"top-k",                                                                                                      \
         OPTION_INT,                                                                                                   \
         (at) + offsetof(DrawOptions, top_k),                                                                          \
         "N",                                                                                                          \
         0,                                                                                                            \
         1 << 20,                                                                                                      \
         "50",                                                                                                         \
         .help = "draw from the N likeliest tokens; 0: from all"},                                                     \
        {"top-p",                                                                                                      \
         OPTION_REAL,                                                                                                  \
         (at) + offsetof(DrawOptions, top_p),                                                                          \
         "X",                                                                                                          \
         0,                                                                                                            \
         1,                                                                                                            \
         "1",                                                                                                          \
         .help = "draw from the likeliest tokens that make up X"},                                                     \
        {"min-p",                                                                                                      \
         OPTION_REAL,                                                                                                  \
         (at) + offsetof(DrawOptions, min_p),                                                                          \
         "X",                                                                                                          \
         0,                                                                                                            \
         1,                                                                                                            \
         "0",                                                                                                          \
         .help = "draw from tokens at least X as likely as the likeliest"},                                            \
    {                                                                                                                  \
        "repetition-penalty", OPTION_REAL, (at) + offsetof(DrawOptions, repetition_penalty), "X", 0.01, 100, "1",      \
            .help = "above 1: what has been said becomes less likely"                                                  \
    }
enum { NOISE_SCALE_MAX = 8 };

Sampling draws_sampling(const DrawOptions *d, uint64_t seed);
uint64_t draws_seed(int64_t given);

/* --noise-component, -1 where it is not given: into noise->component, or why not. */
int draws_component(const Config *c, int named, NoiseKey *noise, Err *err); /* below 0: a random one */

#endif
