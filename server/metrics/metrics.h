/* metrics: the figures behind GET /metrics, in Prometheus' text format 0.0.4.
 *
 * Counters and histograms are atomics: any thread counts, none waits. Gauges are read when somebody asks. Names and
 * number of the series never change: nothing of a request becomes a label. What means the same in vLLM appears under
 * its name and with its buckets too, so that dashboards and rules made for vLLM work; the same figure under our name
 * has finer buckets below vLLM's first, for models whose tokens take less than 10 ms.
 *
 * Tokens are counted as `usage` counts them: a prompt once per request, and what belongs to an answer, so that the
 * counters are the sums of the usage numbers. Times are of choices; a choice is what vLLM calls a request. */
#ifndef NOISED_METRICS_H
#define NOISED_METRICS_H

#include "base/buffer.h"

#include <stdatomic.h>

typedef enum Counter {
    COUNT_ANSWERS_2XX,
    COUNT_ANSWERS_4XX,
    COUNT_ANSWERS_5XX,
    COUNT_HUNG_UP, /* requests whose connection ended before their answer did */
    COUNT_PROMPT_TOKENS,
    COUNT_GENERATED_TOKENS,
    COUNT_PREFIX_QUERIES, /* prompt tokens of choices that started */
    COUNT_PREFIX_HITS,    /* of these, taken from the cache */
    COUNT_STEPS,
    COUNT_GUESSED,       /* tokens that were tried ahead */
    COUNT_GUESSED_RIGHT, /* of these, drawn then */
    COUNT_STOP,          /* choices by how they ended */
    COUNT_LENGTH,
    COUNT_DEADLINE,
    COUNT_CANCELLED,
    COUNT_ERROR,
    COUNT_RELOADS,
    COUNT_RELOADS_REFUSED,
    COUNTERS
} Counter;

typedef enum Distribution {
    TIME_QUEUE,       /* submitted to started */
    TIME_FIRST_TOKEN, /* submitted to the first token */
    TIME_BETWEEN,     /* one token to the next */
    TIME_WHOLE,       /* submitted to finished */
    TIME_PREFILL,     /* started to the first token */
    TIME_DECODE,      /* first token to the last */
    TIME_INFERENCE,   /* started to the last token */
    TIME_TURN,        /* of the HTTP thread, in which nobody else is served */
    TIME_STEP_WAIT,   /* phases of the time from one step's end to the next one's: see server/engine/phases.h */
    TIME_STEP_PLAN,
    TIME_STEP_FORWARD,
    TIME_STEP_SAMPLE,
    TIME_STEP_PUBLISH,
    SIZE_STEP,       /* tokens that a step drew, and those of the prompts that it completed */
    SIZE_PROMPT,     /* tokens of a choice's prompt */
    SIZE_GENERATED,  /* tokens of a finished choice */
    SIZE_MAX_TOKENS, /* that a choice may generate */
    SIZE_CHOICES,    /* n of a request */
    DISTRIBUTIONS
} Distribution;

enum { METRIC_BOUNDS = 26 };
extern const double metric_bounds[DISTRIBUTIONS][METRIC_BOUNDS]; /* ascending; a row may end early, with 0 */
static inline bool metric_is_time(Distribution d) { return d < SIZE_STEP; }

typedef struct Histogram {
    atomic_uint_least64_t counts[METRIC_BOUNDS + 1]; /* the last: above all bounds */
    atomic_uint_least64_t sum;                       /* nanoseconds, or tokens */
} Histogram;

/* Zeroed is empty. */
typedef struct Metrics {
    atomic_uint_least64_t counters[COUNTERS];
    Histogram histograms[DISTRIBUTIONS];
} Metrics;

/* m may be NULL: nothing is counted. */
void metrics_count(Metrics *m, Counter c, uint64_t n);
void metrics_observe(Metrics *m, Distribution d, double value); /* seconds or tokens; negative counts as 0 */

typedef struct CacheShape {
    const char *type;  /* of what it holds */
    int block, blocks; /* positions in one; how many */
} CacheShape;

typedef struct Gauges {
    bool healthy; /* what /health says */
    int running, queued, kv_blocks, kv_blocks_used;
    int most_running;        /* places of the newest version */
    double queue_wait;       /* EngineStats.wait of the newest version */
    int threads;             /* that compute, of the newest version */
    int context;             /* tokens of a prompt and its answer, at most */
    int versions;            /* of the checkpoint that are in memory */
    CacheShape cache;        /* the newest version's */
    double started;          /* seconds since 1970 */
    const char *model, *isa; /* its name; the level of the kernels */
} Gauges;

void metrics_print(Buffer *out, const Metrics *m, const Gauges *g);

#endif
