/* training: a run that stands ready, as the loop and the snapshot see it. All of it belongs to the Run. */
#ifndef NOISED_TRAINING_H
#define NOISED_TRAINING_H

#include "model/transformer.h"
#include "trainer/text/corpus.h"
#include "trainer/optimizer.h"
#include "trainer/settings.h"

typedef struct Training {
    const Settings *settings;
    const cJSON *saved_settings; /* settings_save */
    const Corpus *corpus;        /* fewer than 2 tokens in val: nothing to evaluate on */
    const Tokenizer *tokenizer;
    const char *data_hash;
    Model *model; /* bound to the optimizer's buffers */
    Optimizer *optimizer;
    Windows *windows;
} Training;

#endif
