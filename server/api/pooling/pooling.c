#include "server/api/pooling/pooling.h"

#include "server/api/completions/prompt.h"
#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/shape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the request ---- */

static int check_input(const PoolingRequest *r, ApiError *e) {
    return r->input ? 0 : api_fail(e, 400, NULL, "input", "input is missing");
}

static void keep_last(const PoolingRequest *r, const ApiContext *ctx, Prompt *p) {
    int most = r->truncate_prompt_tokens < 0 ? ctx->config->max_positions : r->truncate_prompt_tokens;
    if (most) api_prompt_keep_last(p, most);
}

int pooling_read_texts(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    const FieldReader reader = {.name = "input", .out = r, .context = ctx, .error = e};
    if (check_input(r, e)) return -1;
    Prompt *prompts = NULL;
    int n = 0, rc = api_prompts_read(&reader, r->input, true, &prompts, &n);
    r->inputs = rc ? NULL : try_calloc((size_t)n, sizeof *r->inputs);
    if (rc == 0 && !r->inputs) rc = api_no_memory(e);
    for (int i = 0; i < n && rc; i++) free(prompts[i].ids);
    for (int i = 0; i < n && rc == 0; i++) keep_last(r, ctx, &prompts[i]);
    for (int i = 0; i < n && rc == 0; i++)
        r->inputs[r->n_inputs++] = (PoolingInput){.ids = prompts[i].ids, .n = prompts[i].n};
    free(prompts);
    return rc;
}

int pooling_add_text(PoolingRequest *r, const ApiContext *ctx, const char *field, const char *text, ApiError *e) {
    const FieldReader reader = {.name = field, .out = r, .context = ctx, .error = e};
    Prompt *prompt = NULL;
    const cJSON string = {.type = cJSON_String, .valuestring = (char *)text};
    int n = 0, rc = api_prompts_read(&reader, &string, true, &prompt, &n);
    if (rc == 0) keep_last(r, ctx, prompt);
    if (rc == 0 && !r->truncate && prompt->n > ctx->config->max_positions)
        rc = api_fail(e, 400, "context_length_exceeded", field,
                      "a text of %s is too large: it has %d tokens, the context %d (truncate: true takes the first of "
                      "them)",
                      field, prompt->n, ctx->config->max_positions);
    if (rc == 0)
        r->inputs[r->n_inputs++] = (PoolingInput){.ids = prompt->ids, .n = prompt->n};
    else if (prompt)
        free(prompt->ids);
    free(prompt);
    return rc;
}

int pooling_read_each(PoolingRequest *r, const ApiContext *ctx, ReadInput *read_one, const char *what, ApiError *e) {
    if (check_input(r, e)) return -1;
    bool list = cJSON_IsArray(r->input);
    int n = list ? cJSON_GetArraySize(r->input) : 1;
    if (n == 0) return api_fail(e, 400, NULL, "input", "input must not be an empty array");
    if (n > ctx->limits.prompts)
        return api_fail(e, 400, NULL, "input", "input has %d %s, the limit is %d (--max-prompts)", n, what,
                        ctx->limits.prompts);
    r->inputs = try_calloc((size_t)n, sizeof *r->inputs);
    if (!r->inputs) return api_no_memory(e);
    const cJSON *item = list ? r->input->child : r->input;
    for (; n > 0; n--, item = item->next)
        if (read_one(r, item, ctx, e)) return -1;
    return 0;
}

static void request_free(PoolingRequest *r) {
    for (int i = 0; i < r->n_inputs; i++) {
        free(r->inputs[i].ids);
        free(r->inputs[i].image);
        free(r->inputs[i].words);
    }
    free(r->inputs);
    cJSON_Delete(r->json);
}

static int check_length(const PoolingRequest *r, int i, int context, ApiError *e) {
    PoolingInput *input = &r->inputs[i];
    bool of_rows = r->kind == &job_last_row || r->kind == &job_mean_row;
    if (input->n <= context) return 0;
    if (!r->truncate)
        return api_fail(e, 400, "context_length_exceeded", "input",
                        "input %d is too large: it has %d tokens, the context %d (%s of them)", i, input->n, context,
                        of_rows ? "truncate_prompt_tokens: -1 takes the last" : "truncate: true takes the first");
    input->n = context;
    input->truncated = true;
    return 0;
}

static const char *field_of(const PoolingRequest *r) {
    return r->documents ? "documents" : r->texts ? "texts" : "input";
}

/* What a request may hold in memory until it is answered. */
static int check_size(const PoolingRequest *r, const ApiLimits *limits, ApiError *e) {
    enum { MOST_VALUES = 1 << 24 };
    int64_t values = 0;
    if (r->noise_samples > limits->n)
        return api_fail(e, 400, NULL, "noise_samples", "noise_samples is %d, the limit is %d", r->noise_samples,
                        limits->n);
    if (r->n_inputs * r->noise_samples > limits->queue)
        return api_fail(e, 400, NULL, r->noise_samples > 1 ? "noise_samples" : field_of(r),
                        "%d texts under %d noise seeds each are %d, the server's queue holds %d (--max-queue)",
                        r->n_inputs, r->noise_samples, r->n_inputs * r->noise_samples, limits->queue);
    for (int i = 0; i < r->n_inputs; i++) values += (int64_t)r->noise_samples * r->inputs[i].n_values;
    if (values > MOST_VALUES)
        return api_fail(e, 400, NULL, "input", "the answer is made of %lld numbers, the limit is %d", (long long)values,
                        MOST_VALUES);
    return 0;
}

static int check(PoolingRequest *r, const PoolingForm *form, const ApiContext *ctx, ApiError *e) {
    if (api_check_model(r->model, &ctx->models, e)) return -1;
    if (api_check_user(r->user, e)) return -1;
    if (form->settle(r, ctx, e)) return -1;
    for (int i = 0; i < r->n_inputs; i++)
        if (check_length(r, i, ctx->config->max_positions, e)) return -1;
    return check_size(r, &ctx->limits, e);
}

static int read_request(PoolingRequest *r, const PoolingForm *form, const FieldList *fields, const ApiContext *ctx,
                        const char *body, size_t n, Buffer *ignored, ApiError *e) {
    r->json = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!r->json) return -1;
    const FieldReader reader = {.out = r, .context = ctx, .error = e, .ignored = ctx->lenient ? ignored : NULL};
    return fields_read(&reader, r->json, fields) || check(r, form, ctx, e) ? -1 : 0;
}

/* ---- the jobs ---- */

static Job *make_job(const Pooling *r, const PoolingInput *input, int sample, const Requester *requester) {
    const PoolingRequest *request = &r->request;
    const Config *c = r->ctx->api->config;
    JobInput read = {.ids = input->ids, .image = input->image, .rows = input->n};
    if (read.image) read.n_floats = config_image_floats(c);
    Job *job = job_new_pooling(request->kind, read, input->n_values);
    if (!job) return NULL;
    job->noise_prompt = (NoiseKey){.seed = choice_seed(r->noise_seed, sample), .scale = request->noise_scale};
    job->tenant = requester->tenant;
    job->client = requester->client;
    job->wake = requester->wake;
    job->wake_arg = requester->wake_arg;
    return job;
}

static int open_jobs(Pooling *r, const Requester *requester, ApiError *e) {
    const PoolingRequest *request = &r->request;
    int n = request->n_inputs * request->noise_samples;
    r->jobs = try_calloc((size_t)n, sizeof(Job *));
    if (!r->jobs) return api_no_memory(e);
    for (int i = 0; i < n; i++) {
        Job *job = make_job(r, &request->inputs[i / request->noise_samples], i % request->noise_samples, requester);
        if (!job) return api_no_memory(e);
        r->jobs[r->n_jobs++] = job;
    }
    if (answer_submit(r->ctx, r->jobs, r->n_jobs, "input", e)) return -1;
    r->accepted = true;
    return 0;
}

static int count_tokens(const Pooling *r) {
    int tokens = 0;
    for (int i = 0; i < r->request.n_inputs; i++) tokens += r->request.inputs[i].n;
    return tokens;
}

void *pooling_start(const AnswerKind *kind, const AnswerContext *ctx, const FieldList *fields, const char *body,
                    size_t n, const Requester *requester, Buffer *ignored, ApiError *e) {
    Pooling *r = try_calloc(1, sizeof *r);
    if (!r) {
        api_no_memory(e);
        return NULL;
    }
    *r = (Pooling){.ctx = ctx, .form = kind->form};
    PoolingRequest *request = &r->request;
    int rc = read_request(request, r->form, fields, ctx->api, body, n, ignored, e);
    if (rc == 0) {
        OptionalSeed given = request->noise_seed.given ? request->noise_seed : request->seed;
        r->noise_seed = given.given ? given.value : answer_draw_seed();
        rc = open_jobs(r, requester, e);
    }
    if (rc) {
        pooling_free(r);
        return NULL;
    }
    metrics_count(ctx->metrics, COUNT_PROMPT_TOKENS, (uint64_t)count_tokens(r));
    return r;
}

static bool is_large(const Pooling *r) {
    enum { MANY = 1024 }; /* numbers: below a millisecond */
    int64_t values = 0;
    for (int i = 0; i < r->request.n_inputs; i++) values += r->request.inputs[i].n_values;
    return values * r->request.noise_samples > MANY;
}

bool pooling_poll(void *self, Buffer *out, int *status) {
    Pooling *r = self;
    bool done = true, cut = false;
    ApiError e = {0};
    for (int i = 0; i < r->n_jobs && !r->ended && !e.status; i++) {
        Finish finish = job_progress(r->jobs[i]).finish;
        done = done && finish != FINISH_NONE;
        cut = cut || finish == FINISH_CANCELLED;
        answer_gave_up(r->jobs[i], finish, &e);
        if (finish == FINISH_DEADLINE)
            api_fail(&e, 503, "deadline", NULL, "the answer took longer than the server's limit");
    }
    if (!e.status && (cut || (!done && atomic_load(r->ctx->cut)))) answer_shutting_down(&e);
    if (e.status) {
        *status = e.status;
        api_error_print(out, &e);
        return true;
    }
    if (!done) return false;
    if (!r->ended && is_large(r)) return r->ended = true, false;
    r->piece = out->n;
    if (!r->printed) r->begin = out->n;
    r->printed = r->form->print(out, r, r->printed);
    *status = out->failed ? 503 : 200;
    if (out->failed) out->n = r->begin; /* part of an object is of no use */
    return out->failed || r->printed == r->request.n_inputs;
}

bool pooling_enough(const Pooling *r, const Buffer *out) {
    enum { ENOUGH = 1 << 14 }; /* bytes: some milliseconds */
    return r->ended && out->n - r->piece > ENOUGH;
}

bool pooling_is_long(const void *self) { return ((const Pooling *)self)->ended; }

AnswerSummary pooling_summary(const void *self) {
    const Pooling *r = self;
    AnswerSummary s = ANSWER_NO_JOB;
    s.prompt_tokens = count_tokens(r);
    s.fingerprint = r->ctx->api->fingerprint;
    for (int i = 0; i < r->n_jobs; i++) {
        JobProgress p = job_progress(r->jobs[i]);
        answer_add_job(&s, r->ctx->api->config, r->jobs[i], &p, p.finish == FINISH_LENGTH ? FINISH_STOP : p.finish);
    }
    return s;
}

/* A sample of an input is a choice that generates nothing. */
static void count_job(Metrics *m, Job *job) {
    JobProgress p = job_progress(job);
    answer_count_end(m, p.finish);
    metrics_observe(m, SIZE_PROMPT, job->n_prompt);
    if (p.finish == FINISH_LENGTH) metrics_observe(m, TIME_WHOLE, p.finished - p.submitted);
}

void pooling_free(void *self) {
    Pooling *r = self;
    for (int i = 0; i < r->n_jobs; i++) {
        if (r->accepted) count_job(r->ctx->metrics, r->jobs[i]);
        job_cancel(r->jobs[i]);
        job_release(r->jobs[i]);
    }
    free(r->jobs);
    request_free(&r->request);
    free(r);
}

void pooling_print_open(Buffer *out) {
    json_put_text(out, "object", "list");
    json_open(out, "data", '[');
}

void pooling_print_close(Buffer *out, const Pooling *r) {
    int tokens = count_tokens(r);
    json_close(out, ']');
    json_put_text(out, "model", r->ctx->api->models.name);
    json_put_text(out, "system_fingerprint", r->ctx->api->fingerprint);
    answer_put_noise(out, r->ctx->api->config, &(NoiseKey){.seed = r->noise_seed, .scale = r->request.noise_scale});
    if (r->request.noise_samples > 1) json_put_int(out, "noise_samples", r->request.noise_samples);
    json_open(out, "usage", '{');
    json_put_int(out, "prompt_tokens", tokens);
    json_put_int(out, "total_tokens", tokens);
    json_close(out, '}');
    json_close(out, '}');
}
