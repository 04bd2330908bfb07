/* tasks: what models with another task than text generation answer, in the shapes of vLLM and Hugging Face.
 *
 *     POST /v1/classify    texts or pictures -> data[{index, label, probs, num_classes}]
 *     POST /v1/tag         texts -> data[{index, entities, tokens}], a token being a word between white space
 *     POST /v1/fill-mask   texts with masks -> data[{index, masks}], a mask being {position, candidates}, of each of
 *                          which {score, token, token_str, sequence}
 *
 * noise_samples n: under n noise seeds at once, with the spread of the probabilities and the mutual information
 * (probabilities.h). A model with another task answers 400. */
#ifndef NOISED_API_TASKS_H
#define NOISED_API_TASKS_H

#include "server/api/pooling/pooling.h"

extern const AnswerKind classify_answer, tag_answer, fill_mask_answer;
extern const FieldList classify_fields, tag_fields, fill_mask_fields;

struct Probabilities;

/* Fields that all of them have; `also` of their lists. */
extern const FieldList task_fields;

/* A 400 when the model's task is another one than `task`, or than `or_task`. Noise that the request does not name is
 * the daemon's. */
int task_settle(PoolingRequest *r, const ApiContext *ctx, TaskKind task, TaskKind or_task, ApiError *e);

/* The probabilities of row `row` of input i, from all its samples; false when memory runs out. */
bool task_probabilities(struct Probabilities *p, const Pooling *r, int i, int row);

/* "spread" and "mutual_information" where there are several samples. */
void task_print_uncertainty(Buffer *out, const Pooling *r, const struct Probabilities *p);

/* As PoolingForm's print, with an object for every input: behind its "index" `print` writes what was made of input i. p
 * is for its use, of as many classes as the network has outputs. */
int task_print(Buffer *out, const Pooling *r, int from,
               void (*print)(Buffer *out, const Pooling *r, int i, struct Probabilities *p));

#endif
