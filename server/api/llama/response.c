#include "base/err.h"
#include "base/fixed_math.h"
#include "base/json_write.h"
#include "model/shape.h"
#include "server/api/answer.h"
#include "server/api/completions/request_draft.h"
#include "server/api/llama/llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was asked for ---- */

/* Numbers and switches of the table as they acted. */
_Static_assert(offsetof(RequestDraft, request) == 0, "a field's offset is one in the request");
static void put_fields(Buffer *b, const CompletionRequest *r) {
    const FieldList *list = &completion_fields;
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        const char *value = (const char *)r + f->offset;
        if (f->offset >= sizeof *r) continue;
        if (f->kind == FIELD_INT) json_put_int(b, f->name, *(const int *)value);
        if (f->kind == FIELD_FLOAT) json_put_float(b, f->name, *(const float *)value);
        if (f->kind == FIELD_BOOL) json_put_bool(b, f->name, *(const bool *)value);
    }
}

static void put_settings(Buffer *b, const ResponseHead *head, const Choice *c) {
    const CompletionRequest *r = head->request;
    json_open(b, "generation_settings", '{');
    json_put_int(b, "n_ctx", head->api->config->max_positions);
    json_put_int(b, "n_predict", r->max_tokens);
    json_put_uint(b, "seed", c->job->sampling.seed);
    answer_put_noise(b, head->api->config, &c->job->noise);
    put_fields(b, r);
    json_put_float(b, "repeat_penalty", r->sampling.repetition_penalty);
    json_put_int(b, "repeat_last_n", r->sampling.repetition_window ? r->sampling.repetition_window : -1);
    json_put_int(b, "n_probs", MAX(r->logprobs, 0));
    json_put_bool(b, "post_sampling_probs", r->post_sampling_probs);
    json_open(b, "stop", '[');
    for (int i = 0; i < r->stop.n; i++) json_put_text(b, NULL, r->stop.items[i].text);
    json_close(b, ']');
    json_close(b, '}');
}

static void put_prompt(Buffer *b, const Choice *c) {
    size_t n = 0;
    char *text = tokenizer_decode(c->rules->tokenizer, c->job->prompt, (size_t)c->job->n_prompt, &n);
    if (!text) b->failed = true;
    json_put_bytes(b, "prompt", text, n);
    free(text);
}

/* ---- how it went ---- */

/* "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second": what takes no time has no speed. */
static void put_time(Buffer *b, const char *what, int n, double seconds) {
    const struct {
        const char *name;
        double value;
    } times[] = {{"ms", 1e3 * seconds}, {"per_token_ms", n ? 1e3 * seconds / n : NAN}, {"per_second", n / seconds}};
    char name[64];
    snprintf(name, sizeof name, "%s_n", what);
    json_put_int(b, name, n);
    for (size_t i = 0; i < COUNTOF(times); i++) {
        snprintf(name, sizeof name, "%s_%s", what, times[i].name);
        json_put_double(b, name, times[i].value);
    }
}

static void put_timings(Buffer *b, const Choice *c) {
    JobProgress p = job_progress(c->job);
    json_open(b, "timings", '{');
    put_time(b, "prompt", c->job->n_prompt - p.cached_tokens, p.first_token ? p.first_token - p.started : 0);
    put_time(b, "predicted", c->n_read, p.last_token - p.first_token);
    json_close(b, '}');
}

static const char *stop_type(const Choice *c) {
    return c->finish != FINISH_STOP ? "limit" : c->text.stopped ? "word" : "eos";
}

/* The context is full. */
static bool is_truncated(const ResponseHead *head, const Choice *c) {
    return c->finish == FINISH_LENGTH && c->job->n_prompt + c->n_read >= head->api->config->max_positions;
}

/* ---- the tokens ---- */

static void put_tokens(Buffer *b, const Choice *c, int n) {
    json_open(b, "tokens", '[');
    for (int i = 0; i < n && c->rules->token_ids; i++) json_put_int(b, NULL, c->slots[c->slots_sent + i].id);
    json_close(b, ']');
}

static void put_token(Buffer *b, const Choice *c, int id, float logprob) {
    bool sampled = c->job->score_sampled;
    json_open(b, NULL, '{');
    json_put_int(b, "id", id);
    response_token(b, c->rules, id, sampled ? "prob" : "logprob", sampled ? (float)fixed_exp(logprob) : logprob);
}

static void put_probabilities(Buffer *b, const Choice *c, int n) {
    if (!c->rules->logprobs || n == 0) return;
    json_open(b, "completion_probabilities", '[');
    for (int i = 0; i < n; i++) {
        const JobToken *token = c->slots[c->slots_sent + i].token;
        put_token(b, c, token->id, token->logprob);
        json_open(b, c->job->score_sampled ? "top_probs" : "top_logprobs", '[');
        for (int k = 0; k < c->rules->n_top && token->top[k].id >= 0; k++) {
            put_token(b, c, token->top[k].id, token->top[k].logprob);
            json_close(b, '}');
        }
        json_close(b, ']');
        json_close(b, '}');
    }
    json_close(b, ']');
}

/* ---- the object ---- */

static void put_end(Buffer *b, const ResponseHead *head, const Choice *c) {
    json_put_text(b, "model", head->api->models.name);
    put_settings(b, head, c);
    put_prompt(b, c);
    json_put_bool(b, "has_new_line", c->text.text.n && memchr(c->text.text.data, '\n', c->text.text.n));
    json_put_bool(b, "truncated", is_truncated(head, c));
    json_put_text(b, "stop_type", stop_type(c));
    json_put_text(b, "stopping_word", c->text.stopped ? c->text.stopped->text : "");
    json_put_int(b, "tokens_cached", job_progress(c->job).cached_tokens);
    json_put_uint(b, "seed", c->job->sampling.seed);
    answer_put_noise(b, head->api->config, &c->job->noise);
    json_put_text(b, "system_fingerprint", head->request->fingerprint);
}

static bool ends(Part part) { return part == PART_WHOLE || part == PART_END; }

static void print_all(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    bool has_text = part != PART_END;
    int n = has_text ? choice_settled_slots(c) : 0;
    json_open(b, NULL, '{');
    json_put_int(b, "index", index);
    if (has_text)
        response_choice_text(b, "content", c);
    else
        json_put_text(b, "content", "");
    put_tokens(b, c, n);
    json_put_bool(b, "stop", ends(part));
    json_put_int(b, "id_slot", -1);
    json_put_int(b, "tokens_predicted", c->n_read);
    json_put_int(b, "tokens_evaluated", c->job->n_prompt);
    if (ends(part)) put_end(b, head, c);
    if (ends(part) || head->request->timings_per_token) put_timings(b, c);
    put_probabilities(b, c, n);
    json_close(b, '}');
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    const char *names = head->request->response_fields;
    if (!names || !ends(part)) {
        print_all(b, head, c, index, part);
        return;
    }
    Buffer all = {0};
    print_all(&all, head, c, index, part);
    buffer_append(&all, "", 1);
    if (all.failed)
        b->failed = true;
    else
        llama_pick(b, all.data, names);
    buffer_free(&all);
}

static int print_events(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    buffer_text(b, "data: ");
    print_choice(b, head, c, index, part);
    buffer_text(b, "\n\n");
    return 1;
}

const ResponseForm response_llama = {
    .id = "llama", .ends = true, .each_token = true, .choice = print_choice, .events = print_events};
