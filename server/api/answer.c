#include "server/api/answer.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/random.h"
#include "model/noise.h"
#include "model/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

uint64_t answer_draw_seed(void) {
    uint64_t seed;
    BUG_ON(getrandom(&seed, sizeof seed, 0) != sizeof seed);
    return seed >> (64 - SEED_BITS);
}

void answer_draw_id(char id[ANSWER_ID], const char *before) {
    uint64_t random[2];
    BUG_ON(getrandom(random, sizeof random, 0) != sizeof random);
    snprintf(id, ANSWER_ID, "%s-%016" PRIx64 "%08" PRIx32, before, random[0], (uint32_t)random[1]);
}

int answer_shutting_down(ApiError *e) { return api_fail(e, 503, "shutting_down", NULL, "the server is shutting down"); }

static int fail_damaged(ApiError *e) {
    return api_fail(e, 503, "checkpoint_damaged", NULL,
                    "the checkpoint's files were changed while they were served; it must be loaded again");
}

int answer_submit(const AnswerContext *ctx, Job *const *jobs, int n, const char *too_long, ApiError *e) {
    double retry_after = 0;
    switch (engine_submit(ctx->engine, jobs, n, &retry_after)) {
    case SUBMIT_OK:
        return 0;
    case SUBMIT_TOO_LONG:
        return api_fail(e, 400, "context_length_exceeded", too_long,
                        "%d tokens of prompt and %d to generate exceed what the server's cache holds",
                        jobs[0]->n_prompt, jobs[0]->max_tokens);
    case SUBMIT_DRAINING:
        return answer_shutting_down(e);
    case SUBMIT_DAMAGED:
        return fail_damaged(e);
    case SUBMIT_NO_MEMORY:
        return api_no_memory(e);
    case SUBMIT_QUEUE_FULL:
        break;
    }
    api_fail(e, 429, "queue_full", NULL, "the queue is full");
    e->retry_after = retry_after;
    return -1;
}

bool answer_gave_up(Job *job, Finish finish, ApiError *e) {
    if (finish == FINISH_DAMAGED) return fail_damaged(e), true;
    if (finish == FINISH_DISPLACED) {
        api_fail(e, 429, "queue_full", NULL, "the queue is full, and others have less waiting in it");
        return true;
    }
    if (finish != FINISH_ERROR) return false;
    bool waited = job->progress.started == 0; /* it never left the queue; before its end this would be the mutex's */
    bool asked = job->walk || job_is_masked(job); /* what cannot be gone on with is the request's own */
    int status = waited ? 503 : asked ? 400 : 500;
    api_fail(e, status, waited ? "queue_timeout" : NULL, NULL, "%s", job->error);
    return true;
}

void answer_put_noise(Buffer *b, const Config *c, const NoiseKey *key) {
    if (!config_noise_acts(c, key->scale)) {
        json_put_null(b, "noise_seed");
        return;
    }
    json_put_uint(b, "noise_seed", key->seed);
    if (config_noise_components(c)) json_put_int(b, "noise_component", noise_component(c, key));
}

static void add_seeds(AnswerSummary *s, const Config *c, const Job *job) {
    bool draws = job->kind == &job_tokens;
    const NoiseKey *noise = draws ? &job->noise : &job->noise_prompt;
    if (draws) s->seed = (int64_t)job->sampling.seed;
    if (config_noise_acts(c, noise->scale)) s->noise_seed = (int64_t)noise->seed;
}

static void add_gaps(AnswerSummary *s, const JobProgress *p, bool ended) {
    s->tokens += p->n_tokens;
    if (p->n_tokens == 0) return;
    double since = ended ? 0 : now_seconds() - p->last_token;
    s->n_gaps += p->n_tokens - 1;
    s->gap_seconds += p->last_token - p->first_token;
    s->longest_gap = MAX(s->longest_gap, MAX(p->longest_gap, since));
}

double answer_tokens_per_second(const AnswerSummary *s) { return s->gap_seconds > 0 ? s->n_gaps / s->gap_seconds : -1; }

void answer_add_job(AnswerSummary *s, const Config *c, const Job *job, const JobProgress *p, Finish finish) {
    static const int severity[] = {
        [FINISH_STOP] = 0,      [FINISH_LENGTH] = 1,    [FINISH_DEADLINE] = 2, [FINISH_NONE] = 3,
        [FINISH_CANCELLED] = 3, [FINISH_DISPLACED] = 4, [FINISH_DAMAGED] = 4,  [FINISH_ERROR] = 4};
    double first = p->first_token - p->submitted;
    bool ended = p->finish != FINISH_NONE || finish != FINISH_NONE;
    if (s->choices++ == 0) add_seeds(s, c, job);
    s->submitted = p->submitted;
    s->running += p->started > 0 && !ended;
    if (p->started > 0) s->queue_seconds = MAX(s->queue_seconds, p->started - p->submitted);
    if (p->first_token > 0 && (s->first_token_seconds < 0 || first < s->first_token_seconds))
        s->first_token_seconds = first;
    add_gaps(s, p, ended);
    if (severity[finish] > severity[s->finish]) s->finish = finish;
}

const char *answer_finish_name(Finish f) {
    static const char *const names[] = {
        [FINISH_STOP] = "stop",      [FINISH_LENGTH] = "length",       [FINISH_DEADLINE] = "deadline",
        [FINISH_NONE] = "cancelled", [FINISH_CANCELLED] = "cancelled", [FINISH_DISPLACED] = "error",
        [FINISH_DAMAGED] = "error",  [FINISH_ERROR] = "error"};
    return names[f];
}

void answer_count_end(Metrics *m, Finish f) {
    static const Counter ends[] = {
        [FINISH_NONE] = COUNT_CANCELLED,    [FINISH_STOP] = COUNT_STOP,           [FINISH_LENGTH] = COUNT_LENGTH,
        [FINISH_DEADLINE] = COUNT_DEADLINE, [FINISH_CANCELLED] = COUNT_CANCELLED, [FINISH_DISPLACED] = COUNT_ERROR,
        [FINISH_DAMAGED] = COUNT_ERROR,     [FINISH_ERROR] = COUNT_ERROR};
    metrics_count(m, ends[f], 1);
}
