/* run_state: trainer_state.json, what a run is. */
#ifndef NOISED_RUN_STATE_H
#define NOISED_RUN_STATE_H

#include "base/err.h"
#include "model/config.h"

#include <cjson/cJSON.h>

/* Of `pretrain`. */
typedef struct RunState {
    cJSON *root;                /* of one that was loaded, which owns all that follows */
    const cJSON *settings;      /* settings_save */
    const char *arithmetic;     /* of its last steps (kernels.h) */
    const char *tokenizer_hash; /* sha256 of tokenizer.json; both NULL of an older program's run */
    Config config;
    char data_hash[65];
} RunState;

/* Of any command: the object that it has written; NULL on error. */
cJSON *run_state_read(const char *dir, Err *err);
int run_state_write(cJSON *root, const char *dir, Err *err);                  /* deletes root */
int run_json_write(cJSON *root, const char *dir, const char *name, Err *err); /* a file beside it; the same */

int run_state_load(RunState *s, const char *dir, Err *err);
void run_state_free(RunState *s);
/* step is for readers: what a run has done is in optimizer.safetensors. */
int run_state_save(const RunState *s, const char *dir, int64_t step, Err *err);

#endif
