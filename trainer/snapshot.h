/* snapshot: what a run writes so that it survives a kill at any moment (run_folder.h names the files).
 *
 * A save writes optimizer.safetensors, trainer_state.json, config.json and model.safetensors in this order, each
 * atomically. The rename of the first is the commit: a resumed run starts from it and writes the other files anew, so
 * it does not matter which of them a kill had left a save behind. */
#ifndef NOISED_SNAPSHOT_H
#define NOISED_SNAPSHOT_H

#include "base/err.h"
#include "trainer/training.h"

typedef struct RunState {
    cJSON *root;           /* owned */
    const cJSON *settings; /* inside root: settings_save */
    Config config;
    char data_hash[65];
} RunState;

int run_state_load(RunState *s, const char *dir, Err *err);
void run_state_free(RunState *s);

int snapshot_save(const Training *t, int64_t step, Err *err);
/* Fills the optimizer's buffers; *step is how many steps they have behind them. */
int snapshot_load(const Training *t, int64_t *step, Err *err);

#endif
