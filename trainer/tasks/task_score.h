/* task_score: how good a network's answers on labelled data are, computed by the serving path (nothing recorded), so
 * that the figures are about the very code that serves. An answer is the label with the largest logit, the first of
 * equals. */
#ifndef NOISED_TASK_SCORE_H
#define NOISED_TASK_SCORE_H

#include "base/buffer.h"
#include "trainer/tasks/task_data.h"

typedef enum TaskMetric { METRIC_ACCURACY, METRIC_F1, METRIC_MATTHEWS, METRIC_ENTITY_F1, METRICS } TaskMetric;
extern const char *const task_metrics[METRICS], *const task_metric_keys[METRICS]; /* "entity-f1", in JSON "entity_f1" */

typedef struct TaskScore {
    int n;       /* units */
    double loss; /* mean cross-entropy, nats */
    /* f1: of the second of two labels, else the mean over labels; entity_f1 NaN where labels are no tags of chunks */
    double metric[METRICS];
    double majority; /* accuracy of always answering what is most frequent in training */
    double chance;   /* 1 / labels */
} TaskScore;

/* The rows that the head reads of all units, [n_units, d]: constant while what is behind it is frozen. Stops between
 * batches when `stopped` says so, which may be NULL: 1 then, else 0. */
int task_features(const Model *m, const TaskData *d, NoiseKey noise, int (*stopped)(void), float *features);

/* features: those of d, or NULL. majority: the number of the label that answers nothing asked. Returns as above.
 * All ranks call it alike (ranks.h): each computes its share, and all get what one would have. */
int task_score(const Model *m, const TaskData *d, const float *features, NoiseKey noise, int majority,
               int (*stopped)(void), TaskScore *out);

int task_majority(const Examples *e); /* the most frequent label, the first of equals */

/* Members of an object: "n", "loss", "accuracy", ..., "majority", "chance". */
void task_score_put(Buffer *b, const TaskScore *s);

#endif
