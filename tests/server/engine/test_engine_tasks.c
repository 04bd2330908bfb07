/* Networks that read whole sequences: what the engine hands out is what a forward pass over each alone gives, bit for
 * bit, whatever shares its step. */
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "model/shape.h"
#include "server/engine/scheduler.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"
#include "weights/config_json.h"

#include <stdlib.h>
#include <string.h>

enum { JOBS = 24, MASK = 3, SIDE = 6, PIXELS = SIDE * SIDE };

static Config task(TaskKind task, Pool pool, bool noise) {
    Config c = test_engine_config(noise ? "noise" : "plain");
    c.task = task;
    c.causal = false;
    if (task == TASK_FILL_MASK) c.mask_token_id = MASK;
    if (!config_classifies(&c)) return c;
    c.pool = pool;
    c.n_labels = 3;
    return c;
}

static Config image_task(bool noise) {
    Config c = task(TASK_IMAGE_CLASSIFICATION, POOL_FIRST, noise);
    c.input.kind = INPUT_PATCHES;
    c.input.height = c.input.width = SIDE;
    c.input.channels = 1;
    c.input.patch = 2;
    c.vocab_size = 0;
    c.bos_token_id = c.eos_token_id = -1;
    return c;
}

static int count_masks(const int *ids, int n) {
    int masks = 0;
    for (int i = 0; i < n; i++) masks += ids[i] == MASK;
    return masks;
}

static int rows_of(const Config *c, const Job *job) {
    return config_pools(c) ? 1 : c->task == TASK_FILL_MASK ? count_masks(job->prompt, job->n_prompt) : job->n_prompt;
}

static Job *text_job(const Config *c, int index, const JobKind *kind) {
    Draws d = draws_open(77, DRAW_TEST, (uint32_t)index);
    int context = MIN(c->max_positions, TEST_CONTEXT), ids[TEST_CONTEXT];
    int n = index == 5 ? context : 1 + (int)draw_below(&d, (uint64_t)MIN(60, context));
    for (int i = 0; i < n; i++) ids[i] = i % 7 == 2 ? MASK : 4 + (int)draw_below(&d, (uint64_t)c->vocab_size - 4);
    ids[0] = MASK;
    int rows = config_pools(c) ? 1 : c->task == TASK_FILL_MASK ? count_masks(ids, n) : n;
    return job_new_pooling(kind, (JobInput){.ids = ids, .rows = n},
                           kind == &job_logits ? rows * config_outputs(c) : c->hidden_size);
}

static Job *image_job(const Config *c, int index, const JobKind *kind) {
    Draws d = draws_open(78, DRAW_TEST, (uint32_t)index);
    float pixels[PIXELS];
    for (int i = 0; i < PIXELS; i++) pixels[i] = (float)draw_normal(&d);
    return job_new_pooling(kind, (JobInput){.image = pixels, .n_floats = PIXELS, .rows = config_image_rows(c)},
                           kind == &job_logits ? config_outputs(c) : c->hidden_size);
}

static void check_alone(const Model *m, const Job *job, int index) {
    const Config *c = &m->cfg;
    Tape t;
    tape_init(&t, false);
    int want[TEST_CONTEXT], n_want = 0;
    Segment all = {.n = job->n_prompt, .noise = job->noise_prompt};
    Batch b = {.tokens = job->prompt, .images = job->image, .n = job->n_prompt, .segments = &all, .n_segments = 1};
    for (int i = 0; i < job->n_prompt && c->task == TASK_FILL_MASK; i++)
        if (job->prompt[i] == MASK) want[n_want++] = i;
    if (n_want) b.want = want, b.n_want = n_want;
    const Mat *y = model_forward(m, &t, &b, NULL);
    CHECK(y->n == rows_of(c, job) && y->d == config_outputs(c));
    CHECK_MSG(!memcmp(y->x, job->values, (size_t)y->n * (size_t)y->d * sizeof(float)), "%s, job %d: %.9g, alone %.9g",
              task_names[c->task], index, (double)job->values[0], (double)y->x[0]);
    tape_free(&t);
}

static void check_task(const Config *c, int chunk, int max_batch) {
    EngineOptions o = test_engine_options();
    o.prefill_chunk = chunk;
    o.max_batch = max_batch;
    TestEngine t;
    test_engine_open(&t, c, &o);
    Job *jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        const JobKind *kind = i % 4 < 3 || c->network ? &job_logits : &job_mean_row;
        jobs[i] = c->input.kind == INPUT_PATCHES ? image_job(c, i, kind) : text_job(c, i, kind);
        jobs[i]->noise_prompt = (NoiseKey){.seed = (uint64_t)i, .scale = i % 5 ? 1 : 0};
        test_submit(&t, jobs[i]);
    }
    for (int i = 0; i < JOBS; i++) {
        CHECK(test_wait(jobs[i]) == FINISH_LENGTH);
        if (jobs[i]->kind == &job_logits) check_alone(&t.checkpoint.model, jobs[i], i);
        job_release(jobs[i]);
    }
    test_wait_idle(&t);
    test_engine_close(&t);
}

TEST(engine_tasks_are_whole_forward_passes) {
    for (int noise = 0; noise < 2; noise++) {
        Config all[] = {task(TASK_TEXT_CLASSIFICATION, POOL_LAST, noise),
                        task(TASK_TEXT_CLASSIFICATION, POOL_MEAN, noise),
                        task(TASK_TOKEN_CLASSIFICATION, POOL_LAST, noise), task(TASK_FILL_MASK, POOL_LAST, noise),
                        image_task(noise)};
        all[0].causal = true;
        for (size_t i = 0; i < COUNTOF(all); i++) {
            check_task(&all[i], 64, 16);
            check_task(&all[i], 300, 3);
        }
    }
}

TEST(engine_tasks_of_other_networks) {
    static const char *const names[] = {"bilstm", "encoder_decoder"};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Config c;
        Err err;
        REQUIRE(config_json_load(&c, NULL, test_text("tests/golden_networks/%s/config.json", names[i]), &err) == 0);
        check_task(&c, 64, 16);
        check_task(&c, 20, 3);
    }
}

/* As many as a step has room for: one more would never come. */
TEST(engine_fills_all_masks_of_a_step) {
    Config c = task(TASK_FILL_MASK, POOL_LAST, false);
    EngineOptions o = test_engine_options();
    TestEngine t;
    int ids[SCORED_ROWS];
    for (int i = 0; i < SCORED_ROWS; i++) ids[i] = MASK;
    test_engine_open(&t, &c, &o);
    Job *job = job_new_pooling(&job_logits, (JobInput){.ids = ids, .rows = SCORED_ROWS}, SCORED_ROWS * c.vocab_size);
    CHECK(test_run(&t, job)->progress.finish == FINISH_LENGTH);
    check_alone(&t.checkpoint.model, job, 0);
    job_release(job);
    test_engine_close(&t);
}

/* A text that is pooled has no masks to fill: any number of them runs. */
TEST(engine_pools_a_text_of_masks) {
    Config c = task(TASK_FILL_MASK, POOL_LAST, false);
    EngineOptions o = test_engine_options();
    TestEngine t;
    int ids[SCORED_ROWS + 1];
    for (size_t i = 0; i < COUNTOF(ids); i++) ids[i] = MASK;
    test_engine_open(&t, &c, &o);
    Job *job = job_new_pooling(&job_mean_row, (JobInput){.ids = ids, .rows = COUNTOF(ids)}, c.hidden_size);
    job->deadline = now_seconds() + 20;
    CHECK(test_run(&t, job)->progress.finish == FINISH_LENGTH);
    job_release(job);
    test_engine_close(&t);
}
