/* run_state: trainer_state.json, what a run of `pretrain` is. */
#ifndef NOISED_RUN_STATE_H
#define NOISED_RUN_STATE_H

#include "base/err.h"
#include "model/config.h"

#include <cjson/cJSON.h>

typedef struct RunState {
    cJSON *root;           /* owned; NULL of one to be saved */
    const cJSON *settings; /* settings_save */
    Config config;
    char data_hash[65];
} RunState;

int run_state_load(RunState *s, const char *dir, Err *err);
void run_state_free(RunState *s);
/* step is for readers: what a run has done is in optimizer.safetensors. */
int run_state_save(const RunState *s, const char *dir, int64_t step, Err *err);

#endif
