/* run: `pretrain`, new or resumed: what stands ready before its first step, and the training (language.c). */
#ifndef NOISED_RUN_H
#define NOISED_RUN_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/settings.h"
#include "trainer/text/corpus.h"
#include "trainer/training.h"

typedef struct Run {
    const CommandLine *line;
    Settings *settings; /* the values of line */
    RunFolder folder;   /* --out */
    RunState state;     /* the saved one, when there is one */
    Config config;
    int window; /* tokens */
    Tokenizer *tokenizer;
    char tokenizer_hash[65], data_hash[65];
    Corpus corpus;
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

/* The tokenizer of r into --out: copied, learnt from the training parts, or already there. */
int run_tokenizer(Run *r, const Texts *texts, Err *err);

/* config = that of --config, of --init or of the saved run, with the tokenizer's vocabulary size and <|endoftext|>. */
int run_config(Run *r, Err *err);
int run_config_adopt(Run *r, Err *err);

#endif
