/* snapshot: what a run keeps in its folder so that it survives a kill at any moment.
 *
 *     optimizer.safetensors   master.<name>, m.<name>, v.<name> in F32 and the step: everything that changes
 *     trainer_state.json      {"step", "data_sha256", "config", "settings"}: what the run is; the step is for readers
 *     config.json, model.safetensors   the weights to serve, in --save-dtype
 *     tokenizer.json, tokens.bin, log.jsonl   written once, cached, appended to
 *
 * A save writes them in this order, each atomically. The rename of optimizer.safetensors is the commit: a resumed run
 * starts from it and writes the other files anew, so it does not matter which of them a kill had left a save behind.
 * model.safetensors without trainer_state.json is therefore never an interrupted run, but somebody's model. */
#ifndef NOISED_SNAPSHOT_H
#define NOISED_SNAPSHOT_H

#include "base/err.h"
#include "model/transformer.h"
#include "trainer/optimizer.h"

#include <cjson/cJSON.h>

typedef struct RunFolder {
    const char *dir; /* borrowed */
    int lock;        /* descriptor that keeps other trainers out while it is open; -1: none */
    bool saved;      /* there is a state to resume */
    bool ours;       /* whatever is in it was written by this run or by a start that was killed */
    int made;        /* folders that were created for it, parents too */
} RunFolder;

/* Creates dir and its parents where they are not there. Without resume a dir with anything in it is an error; with it,
 * anything in a dir without a saved state but the leftovers of a start that was killed. Removes temporaries. On failure
 * nothing is left behind; run_close is harmless then. */
int run_open(RunFolder *f, const char *dir, bool resume, Err *err);
/* For a run that is refused before its first step: what it has written and made goes, a saved run stays. */
void run_withdraw(const RunFolder *f);
void run_close(RunFolder *f);

typedef struct RunState {
    cJSON *root;           /* owned */
    const cJSON *settings; /* inside root: settings_save */
    Config config;
    char data_hash[65];
} RunState;

int run_state_load(RunState *s, const char *dir, Err *err);
void run_state_free(RunState *s);

/* settings is borrowed. */
typedef struct Snapshot {
    const char *dir;
    const Model *model; /* bound to the optimizer's buffers */
    Optimizer *optimizer;
    Dtype save_dtype;
    const cJSON *settings;
    const char *data_hash;
} Snapshot;

int snapshot_save(const Snapshot *s, int64_t step, Err *err);
/* Fills the optimizer's buffers; *step is how many steps they have behind them. */
int snapshot_load(const Snapshot *s, int64_t *step, Err *err);

#endif
