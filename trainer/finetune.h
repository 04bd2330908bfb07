/* finetune: a network learns labels, of texts, of words or of images.
 *
 * A seed's run is a folder like any checkpoint's, and resumes to the same bits:
 *     optimizer.safetensors     what training changes and the steps behind it; written last at the end of an epoch
 *     config.json, model.safetensors, tokenizer.json   the best epoch so far on --dev, the last one without
 *     log.jsonl                 a line an epoch: {"epoch", "step", "loss", "lr", "val_loss", "dev": {...}}
 * What is best is read from the log. A run that is stopped goes on behind its last whole epoch. */
#ifndef NOISED_FINETUNE_H
#define NOISED_FINETUNE_H

#include "trainer/finetune_settings.h"
#include "trainer/tasks/task_score.h"
#include "trainer/tasks/vectors.h"
#include "weights/checkpoint.h"

typedef enum TaskSplit { SPLIT_TRAIN, SPLIT_DEV, SPLIT_TEST, SPLITS } TaskSplit;
extern const char *const task_splits[SPLITS];

/* What the runs of all seeds share. Must not move in memory. */
typedef struct Finetune {
    const FinetuneSettings *settings;
    Checkpoint init; /* --init; without it zeroed */
    Config config;
    Labels labels;
    Tokenizer *tokenizer; /* init's, that of vectors or owned; NULL for images */
    Tokenizer *owned;
    Vectors vectors; /* --vectors */
    Examples examples[SPLITS];
    TaskData data[SPLITS];   /* examples NULL: there is none */
    char hash[65];           /* of the data, the config and the weights to start from */
    char tokenizer_hash[65]; /* "": images have none */
    int majority;            /* label, in training */
    TaskMetric metric;
    float *features[SPLITS]; /* --freeze: of train and dev, made by the first run */
    bool begun;              /* a run came to its first step, or went on */
} Finetune;

/* Reads and checks everything before anything is trained. finetune_close takes it in any state. */
int finetune_open(Finetune *f, const FinetuneSettings *s, Err *err);
void finetune_close(Finetune *f);

typedef struct FinetuneResult {
    uint64_t seed;
    int epoch, epochs;                      /* of the weights that are kept; done */
    TaskScore score[SPLITS], quiet[SPLITS]; /* dev and test, as the saved checkpoint answers; quiet: noise scale 0 */
} FinetuneResult;

/* Trains, or goes on, into `dir`, which exists. 0 when done, the signal's number when one came, -1 on error. All ranks
 * call it alike (ranks.h): rank 0 writes, and all get the result. */
int finetune_run(Finetune *f, uint64_t seed, const char *dir, FinetuneResult *result, Err *err);

int64_t finetune_steps(const Finetune *f);  /* of an epoch */
bool finetune_has_noise(const Finetune *f); /* then quiet is filled too */

#endif
