/* finetune_settings: what `noised-train finetune` is told. Each option's tag is its SettingMemory. */
#ifndef NOISED_FINETUNE_SETTINGS_H
#define NOISED_FINETUNE_SETTINGS_H

#include "trainer/tasks/mixing.h"
#include "trainer/settings.h"

enum { FINETUNE_OPTIONS_N = 40 };

typedef struct FinetuneSettings {
    const char *config, *init, *train, *dev, *test, *out, *tokenizer, *vectors; /* NULL = not given */
    bool resume, freeze, truncate;
    int format;       /* ExamplesFormat */
    int pool, metric; /* Pool + 1, TaskMetric + 1; 0: auto */
    int threads, seeds, patience;
    int64_t epochs, warmup_epochs, batch, accumulate, seed, noise_seed;
    Recipe recipe;
    double dropout, kl_weight, sigma_start, noise_scale; /* dropout, sigma_start NaN: as in settings.h */
    Mixing mixing;
} FinetuneSettings;

extern const Option finetune_options[FINETUNE_OPTIONS_N];

/* Rules between options, and defaults that follow from others; on a resumed run after settings_restore. */
int finetune_settings_finish(FinetuneSettings *s, Err *err);

#endif
