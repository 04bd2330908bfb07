/* settings: the flags of `noised-train pretrain`, with their defaults, ranges and what --resume does with each. */
#ifndef NOISED_SETTINGS_H
#define NOISED_SETTINGS_H

#include "base/err.h"
#include "trainer/flags.h"
#include "trainer/schedule.h"
#include "trainer/weight_noise.h"

enum { SETTINGS_FLAGS = 32 };

enum { PRECISION_F32, PRECISION_BF16 };

typedef struct Settings {
    const char *config, *val, *out, *tokenizer, *init; /* NULL = not given */
    FileList data;
    bool resume, noise_per_sequence, recompute;
    int64_t vocab_size; /* 0 = the config's */
    int64_t steps, batch, accumulate, warmup, seed, threads, eval_every, save_every;
    double lr, min_lr, weight_decay, clip, betas[2], kl_weight, perturb_sigma;
    int schedule, perturb, precision, save_dtype; /* ScheduleKind, PerturbMode, PRECISION_* twice */

    Flag flags[SETTINGS_FLAGS];
    int n_flags;
} Settings;

/* Must not move in memory afterwards: the flags point into it. */
void settings_init(Settings *s);
void settings_free(Settings *s);

/* Defaults that follow from other flags, and rules between flags; after flags_parse and, if need be, flags_restore. */
int settings_finish(Settings *s, Err *err);

Schedule settings_schedule(const Settings *s);

#endif
