/* runlog: log.jsonl, one JSON object a line, a line a step:
 *     {"step":200, "loss":4.1, "kl":97.3, "lr":0.001, "grad_norm":0.8, "tokens_per_second":5120}
 * step counts finished steps; loss is the mean cross-entropy in nats per token and kl the unweighted noise KL of the
 * gradient's micro-batches; chosen_loss, where loss is the mean over components that were tried, is that under the
 * chosen ones; grad_norm is that before clipping. A step that ends with an evaluation adds val_loss,
 * val_tokens and, when the model has noise with parameters of its own, sigma: one list per layer; one with a sample
 * adds sample, and the best so far adds best (language.c). Where a signal cut the evaluation short, unfinished is true
 * in place of all that, and the run begins there when it goes on. */
#ifndef NOISED_RUNLOG_H
#define NOISED_RUNLOG_H

#include "base/err.h"
#include "base/files.h"
#include "base/json_write.h"

#include <cjson/cJSON.h>

typedef struct RunLog {
    FILE *file;
    char path[PATH_BYTES];
} RunLog;

/* Opens for appending. What a resumed run will write again goes: lines of steps beyond `step`, and a line cut short. */
int runlog_open(RunLog *log, const char *dir, int64_t step, Err *err);
Buffer runlog_line(int64_t step);                      /* an object that begins with its step; members follow */
int runlog_write(RunLog *log, Buffer *line, Err *err); /* ends and frees line */
/* The last line, without its end, where that step is unfinished, else nothing: members follow, and runlog_replace, or
 * runlog_suspend again. */
int runlog_unfinished(const RunLog *log, Buffer *line, Err *err);
void runlog_suspend(Buffer *line);                       /* makes it one that is unfinished */
int runlog_replace(RunLog *log, Buffer *line, Err *err); /* the last line, at once; ends and frees line */
int runlog_sync(const RunLog *log, Err *err);            /* what was written outlives the power */
int runlog_close(RunLog *log, Err *err);                 /* NULL err: after another failure */

/* A line as it is read again. */
typedef struct RunLogLine {
    const cJSON *fields;
    double step;
    int i, most; /* which line of at most so many */
} RunLogLine;
double runlog_number(const RunLogLine *line, const char *field); /* NaN: it has no such number */

/* Calls `take` with every whole line of dir/log.jsonl, which may have none, until that fails; one without a step is an
 * error. */
int runlog_read(const char *dir, int (*take)(void *context, const RunLogLine *line, Err *err), void *context, Err *err);

#endif
