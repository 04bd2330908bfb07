/* capacity: how large an engine is made, and what memory that takes. */
#ifndef NOISED_CAPACITY_H
#define NOISED_CAPACITY_H

#include "model/transformer.h"
#include "server/metrics/metrics.h"

typedef struct EngineOptions {
    int threads;        /* OpenMP team; 0 = all cores */
    bool keep_threads;  /* all of them compute, whoever else wants their cores (team_size.h) */
    int max_batch;      /* sequences running together */
    int prefill_chunk;  /* prompt rows per step at most */
    int max_queue;      /* jobs that wait */
    bool guess;         /* tokens that may come next are tried ahead (guess.h) */
    const Model *draft; /* says what may come next (draft.h); borrowed until engine_stop, NULL: none */
    int kv_tokens; /* capacity of the cache in tokens, all sequences together; 0 = max_batch full contexts, capped */
    Dtype kv_dtype;
    KvForm kv_form;      /* a form that config_check_kv_form refuses is an error of engine_start */
    double stream_limit; /* seconds from its start until a job is cut (FINISH_DEADLINE); 0 = none */
    double queue_limit;  /* seconds in the queue until it fails (FINISH_ERROR); 0 = none */
    Metrics *metrics;    /* where steps and times are counted; borrowed, may be NULL */
    bool spare;          /* another engine serves: no memory to warm up is stats.no_memory, not the process's end */
} EngineOptions;

/* What it will allocate: known before it does. */
typedef struct EngineFootprint {
    int kv_tokens;               /* 0: the network reads whole sequences */
    size_t kv_bytes, work_bytes; /* the cache; what the largest batch takes */
    size_t draft_bytes;          /* both of the draft's */
} EngineFootprint;
EngineFootprint engine_footprint(const Model *m, const EngineOptions *options);

#endif
