/* Jobs that want hidden rows: the same bits as a forward pass over the whole text alone, whatever runs beside them. */
#include "base/err.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <string.h>

enum { READINGS = 12 };

static Job *reading(const JobKind *kind, int index, int n_prompt) {
    Job *like = test_job(index, n_prompt, 0, -1, false);
    Job *job = job_new_pooling(kind, (JobInput){.ids = like->prompt, .rows = n_prompt}, 1 << 10);
    BUG_ON(!job);
    job->noise_prompt = (NoiseKey){.seed = like->noise.seed, .scale = index % 4 ? 1 : 0};
    job_release(like);
    return job;
}

/* values [d], by evaluation without a cache. */
static void expected(const Model *m, const Job *job, float *values) {
    Tape t;
    tape_init(&t, false);
    Segment all = {.n = job->n_prompt, .noise = job->noise_prompt};
    Batch b = {.tokens = job->prompt, .n = job->n_prompt, .segments = &all, .n_segments = 1};
    const Mat *x = model_hidden(m, &t, &b, NULL);
    for (int d = 0; d < x->d; d++) {
        float sum = 0;
        for (int i = 0; i < x->n; i++) sum += x->x[(size_t)i * (size_t)x->d + (size_t)d];
        values[d] =
            job->kind == &job_mean_row ? sum / (float)x->n : x->x[(size_t)(x->n - 1) * (size_t)x->d + (size_t)d];
    }
    tape_free(&t);
}

static void check_pooling(const char *variant, const EngineOptions *o) {
    Config c = test_engine_config(variant);
    TestEngine t;
    test_engine_open(&t, &c, o);
    Job *jobs[READINGS], *others[READINGS];
    for (int i = 0; i < READINGS; i++) {
        /* Two texts begin alike: the second finds the first one's rows in the cache. */
        jobs[i] = reading(i % 2 ? &job_last_row : &job_mean_row, i / 4, i < 10 ? 20 * (1 + i / 4) + i : TEST_CONTEXT);
        test_submit(&t, others[i] = test_mixed_job(i));
        test_submit(&t, jobs[i]);
    }
    for (int i = 0; i < READINGS; i++) {
        float values[1 << 10];
        CHECK(test_wait(jobs[i]) == FINISH_LENGTH);
        test_wait(others[i]);
        expected(&t.checkpoint.model, jobs[i], values);
        CHECK_MSG(!memcmp(values, jobs[i]->values, (size_t)c.hidden_size * sizeof *values),
                  "%s, job %d: %.9g, alone %.9g", variant, i, (double)jobs[i]->values[0], (double)values[0]);
    }
    for (int i = 0; i < READINGS; i++) {
        Job *alone = test_run(&t, test_mixed_job(i));
        CHECK_MSG(test_same_result(alone, others[i]), "%s, job %d beside readings differs", variant, i);
        job_release(alone);
        job_release(jobs[i]);
        job_release(others[i]);
    }
    test_wait_idle(&t);
    test_engine_close(&t);
}

TEST(engine_pooling_is_the_rows_of_a_whole_pass) {
    EngineOptions o = test_engine_options();
    for (int chunk = 7; chunk <= 300; chunk += 293) {
        o.prefill_chunk = chunk;
        check_pooling("plain", &o);
        check_pooling("noise", &o);
    }
}

TEST(engine_cancels_pooling) {
    EngineOptions o = test_engine_options();
    Config c = test_engine_config("noise");
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *first = test_job(1, 10, 100, -1, false), *job = reading(&job_mean_row, 1, 200);
    first->ignore_eos = true;
    TestGate g;
    test_gate_set(&g, first, 2, 0);
    test_submit(&t, first);
    test_gate_wait(&g);
    test_submit(&t, job);
    job_cancel(job);
    test_gate_open(&g);
    CHECK(test_wait(job) == FINISH_CANCELLED);
    test_wait(first);
    test_wait_idle(&t);
    job_release(first);
    job_release(job);
    test_engine_close(&t);
}
