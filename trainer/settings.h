/* settings: what `noised-train pretrain` is told, and what --resume does with each of it. */
#ifndef NOISED_SETTINGS_H
#define NOISED_SETTINGS_H

#include "base/err.h"
#include "base/options/options.h"
#include "trainer/recipe.h"
#include "trainer/settings_saved.h"

enum { SETTINGS_N = 41, MOST_WINDOWS = 65535 }; /* of a micro-batch, all noises of a window counted */
enum { DRAWS_IMPORTANCE, DRAWS_BEST };
enum { ASSIGN_HARD, ASSIGN_BALANCED, ASSIGN_SOFT, ASSIGN_DRAW, ASSIGN_SOURCE };

typedef struct Settings {
    const char *config, *val, *out, *tokenizer, *init; /* NULL = not given */
    OptionList data;
    bool resume, noise_per_sequence, recompute;
    int64_t vocab_size; /* below BPE_FIRST_MERGE: the config's */
    int64_t window;     /* below 2: max_position_embeddings */
    int64_t pieces;     /* 0: none */
    int64_t steps, decay_steps, batch, accumulate, noise_draws, noise_warmup, warmup, seed, eval_every, save_every,
        sample_every;
    int threads;
    Recipe recipe;
    double kl_weight, dropout, sigma_start; /* dropout NaN: the config's; sigma_start NaN: as they are drawn or taken */
    int save_dtype;                         /* PRECISION_* */
    int noise_draws_weight;                 /* DRAWS_* */
    int noise_assign;                       /* ASSIGN_*, of sequences with components */
} Settings;

/* Their `tag` is a SettingMemory. */
extern const Option settings_options[SETTINGS_N];
extern const char *const settings_assigns[]; /* what ASSIGN_* are called, in their order; ends with NULL */

/* Rules between options as they were typed: those of a resumed run come from its state. */
int settings_check(const CommandLine *line, Err *err);

/* Defaults that follow from other settings, and rules between them; after settings_restore, if need be. */
int settings_finish(Settings *s, Err *err);

#endif
