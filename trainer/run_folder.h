/* run_folder: the folder of a run, --out.
 *
 *     optimizer.safetensors   master.<name>, m.<name>, v.<name> in F32 and the step: everything that changes
 *     trainer_state.json      {"step", "data_sha256", "tokenizer_sha256", "config", "settings"}: what the run is; the
 *                             step is for readers
 *     config.json, model.safetensors   the weights to serve, in --save-dtype
 *     tokenizer.json, tokens.bin, log.jsonl   written once, cached, appended to
 *     tokenizer_config.json and the like   those of --init (weights/carry.h)
 *     best/                   the weights of the lowest validation loss (language.c)
 *     plot.svg                the log as a picture, when the run is done
 *     unsaved                 until the first trainer_state.json: all that is here is of a start, and goes if it stops
 *
 * model.safetensors without trainer_state.json is never an interrupted run, but somebody's model. */
#ifndef NOISED_RUN_FOLDER_H
#define NOISED_RUN_FOLDER_H

#include "base/err.h"

#define RUN_OPTIMIZER "optimizer.safetensors"
#define RUN_MASTERS "masters" /* for a moment, as .tmp (training.h) */
#define RUN_STATE "trainer_state.json"
#define RUN_UNSAVED "unsaved"

typedef struct RunFolder {
    const char *dir; /* borrowed */
    int lock;        /* descriptor that keeps other trainers out while it is open; -1: none */
    bool saved;      /* there is a state to resume */
    bool ours;       /* whatever is in it was written by this run */
    int made;        /* folders that were created for it, parents too */
} RunFolder;

/* Creates dir and its parents where they are not there. A dir with anything in it is an error, but for a saved run with
 * resume, and for what a start left that was stopped before it had saved: that is removed. Nobody else's file is, were
 * its name tokenizer.json. On failure nothing is left behind; run_close is harmless then. */
int run_open(RunFolder *f, const char *dir, bool resume, Err *err);
/* For a run that is refused before its first step: what it has written and made goes, a saved run stays. */
void run_withdraw(const RunFolder *f);
/* To be called when the state in dir has been written. */
void run_settle(const char *dir);
void run_close(RunFolder *f);

#endif
