/* run: `pretrain`, new or resumed: what stands ready before its first step, and the training (language.c). */
#ifndef NOISED_RUN_H
#define NOISED_RUN_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/settings.h"
#include "trainer/text/windows.h"
#include "trainer/training.h"

typedef struct Run {
    const CommandLine *line;
    Settings *settings; /* the values of line */
    RunFolder folder;   /* --out */
    RunState state;     /* the saved one, when there is one */
    Config config;
    int window; /* tokens */
    Tokenizer *tokenizer;
    const char *ids_tokenizer, *ids_hash; /* file and sha256 of the tokenizer of --data's ids while it is chosen */
    char tokenizer_hash[65], data_hash[65];
    Corpus *corpora; /* [n_corpora] one of all texts, or those of --data; the val of the first goes on in the others' */
    int *weights;    /* [n_corpora] */
    int n_corpora;
    Windows windows;
    cJSON *saved_settings; /* as saved from now on */
    Training training;
} Run;

/* line and settings must have been filled, folder.lock be -1. Whatever the outcome, run_free releases it; a failure
 * leaves nothing of a new run on disk. A Run must not move in memory. */
int run_prepare(Run *r, Err *err);
/* Goes on to --steps, after saving once, so that a folder that cannot be written is noticed first. 0 when done, the
 * signal's number when one came (the run is saved then), -1 on error. */
int run_train(Run *r, Err *err);
void run_free(Run *r);

/* Configuration, tokenizer, corpora and windows. */
int run_data(Run *r, Err *err);

/* The tokenizer of r into --out: copied, that of --data's ids, learnt from the training parts of texts, or already
 * there. texts NULL: ids_tokenizer and ids_hash are set. */
int run_tokenizer(Run *r, const Texts *texts, Err *err);

/* config = that of --config, of --init or of the saved run, with the tokenizer's vocabulary size and <|endoftext|>. */
int run_config(Run *r, Err *err);
int run_config_adopt(Run *r, Err *err);

#endif
