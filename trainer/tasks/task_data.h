/* task_data: labelled data as a network reads them.
 *
 *     texts      the tokenizer's first token, if it has one, and the tokens of text or text + "\n" + second
 *     sentences  the tokens of the words with single spaces between them; a word is labelled on the row of its last
 *                token, which has read all of it
 *     images     a byte b as b / 127.5 - 1
 *
 * The logits of a batch have a row for each unit of its examples, in order: what the loss and the scores are about. So
 * they are the same whatever network there is between. */
#ifndef NOISED_TASK_DATA_H
#define NOISED_TASK_DATA_H

#include "base/sha256.h"
#include "model/transformer.h"
#include "tokenizer/tokenizer.h"
#include "trainer/tasks/examples.h"

typedef struct TaskData {
    const Examples *examples; /* borrowed */
    const Config *cfg;        /* borrowed */
    TokenList tokens;         /* of all examples */
    size_t *first;            /* [n + 1] into tokens; NULL for images */
    int *row;                 /* [n_units] of a word in its example; NULL for others */
    int truncated;            /* examples that were longer than the context and lost their end */
    int cut_words;            /* words that did not end before it */
} TaskData;

/* Fails, naming the line, where an example is longer than max_positions, unless `truncate`: then it loses its end, and
 * e the words that it does not read whole, as in the answers of /v1/tag. tok may be NULL for images. On failure nothing
 * needs to be freed but e. */
int task_data_encode(TaskData *d, Examples *e, const Tokenizer *tok, const Config *c, bool truncate, Err *err);
void task_data_free(TaskData *d);

/* Rows of the network that an example takes. */
int task_data_rows(const TaskData *d, int example);

/* What the examples are, whichever file they came from. */
void task_data_hash(const Examples *e, Sha256 *hash);

/* Examples side by side. A zeroed one is empty. */
typedef struct TaskBatch {
    Batch batch;
    int *tokens, *want, *targets; /* targets [n_units] */
    float *images;
    Segment *segments;
    int n_units, capacity[4];
} TaskBatch;

/* Of the examples chosen[0..n); `noise` acts on all, with a sequence of its own for each when per_sequence. */
void task_batch_fill(TaskBatch *b, const TaskData *d, const uint32_t *chosen, int n, NoiseKey noise, bool per_sequence);
void task_batch_free(TaskBatch *b);

#endif
