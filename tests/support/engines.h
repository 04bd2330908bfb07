/* engines: an engine over a small random model, jobs to feed it, and results to compare. */
#ifndef NOISED_TEST_ENGINES_H
#define NOISED_TEST_ENGINES_H

#include "server/engine/engine.h"
#include "tests/support/models.h"

typedef struct TestEngine {
    TestModel model;
    Checkpoint checkpoint; /* its weights are the model's */
    Engine *engine;
} TestEngine;

enum { TEST_VOCAB = 97, TEST_CONTEXT = 256, TEST_EOS = 5 };

Config test_engine_config(const char *variant); /* symmetric attention; variants as in models.h */
Config test_engine_kind(const AttentionKind *kind, const char *variant);
EngineOptions test_engine_options(void); /* 16 sequences, chunks of 64, 1 thread, a cache for all */
void test_engine_open(TestEngine *t, const Config *c, const EngineOptions *o);
void test_engine_close(TestEngine *t);

/* A job with n_prompt tokens drawn for `index`. */
Job *test_job(int index, int n_prompt, int max_tokens, int n_top, bool score_prompt);
/* One of an endless list of jobs that differ in everything. */
Job *test_mixed_job(int index);

void test_submit(TestEngine *t, Job *job); /* must be accepted */
Finish test_wait(Job *job);                /* until it ends */
void test_wait_idle(TestEngine *t);        /* no job, and no block of the cache in use, or the test fails */
Job *test_run(TestEngine *t, Job *job);    /* submit and wait; returns job */

/* The job draws from n tokens from 10 on, each `step` likelier than the one before, whatever the logits. */
void test_job_of_few(Job *job, int n, float bias, float step);

/* Some jobs of an engine that tries tokens ahead have the results of one that does not, in fewer steps; some of what
 * was tried was right, some was wrong. */
void test_ahead_is_not_seen(const Config *c, EngineOptions without, EngineOptions with, Job *(*job_of)(int index),
                            const char *what);

/* Bit for bit: tokens, logprobs, alternatives, scores, finish. */
bool test_same_result(Job *a, Job *b);

/* Holds the engine inside job->wake while the job has at least n_tokens and n_scored; everything else can then be
 * arranged at leisure. */
typedef struct TestGate {
    Job *job;
    int n_tokens, n_scored;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool held, missed;
} TestGate;
void test_gate_set(TestGate *g, Job *job, int n_tokens, int n_scored); /* before the job is submitted */
void test_gate_wait(TestGate *g);                                      /* until the engine stands in it */
bool test_gate_comes(TestGate *g);                                     /* the same; false: the job ended before */
void test_gate_move(TestGate *g, int n_tokens, int n_scored);          /* to where it will be held next */
void test_gate_open(TestGate *g);                                      /* for good */

#endif
