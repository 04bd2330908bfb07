/* POST /v1/fill-mask */
#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/shape.h"
#include "server/api/completions/prompt.h"
#include "server/api/pooling/probabilities.h"
#include "server/api/pooling/tasks.h"
#include "server/engine/scheduler.h"

#include <stdlib.h>
#include <string.h>

static const Field rows[] = {
    {.name = "input",
     .kind = FIELD_OTHER,
     .offset = offsetof(PoolingRequest, input),
     .type = &api_prompts_type,
     .absent = "required",
     .help = "The texts, with the tokenizer's mask in them as it is spelled, or their token ids."},
    {.name = "top_k",
     .kind = FIELD_INT,
     .offset = offsetof(PoolingRequest, top_k),
     .low = 1,
     .high = 100,
     .fallback = 5,
     .help = "How many tokens each mask is answered with, the most probable first. The texts with them have at most "
             "2^20 tokens together."},
};

const FieldList fill_mask_fields = {.rows = rows, .n = COUNTOF(rows), .also = &task_fields};

/* Every candidate of every mask is answered with the whole text. */
static int settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    enum { MOST_TOKENS = 1 << 20 };
    const Config *c = ctx->config;
    int64_t written = 0;
    if (task_settle(r, ctx, TASK_FILL_MASK, TASK_FILL_MASK, e) || pooling_read_texts(r, ctx, e)) return -1;
    for (int i = 0; i < r->n_inputs; i++) {
        PoolingInput *input = &r->inputs[i];
        int masks = 0, n = r->truncate ? MIN(input->n, c->max_positions) : input->n;
        for (int k = 0; k < n; k++) masks += input->ids[k] == c->mask_token_id;
        if (masks == 0) return api_fail(e, 400, NULL, "input", "input %d has no mask (token %d)", i, c->mask_token_id);
        if (masks > SCORED_ROWS)
            return api_fail(e, 400, NULL, "input", "input %d has %d masks, the limit is %d", i, masks, SCORED_ROWS);
        input->n_values = masks * c->vocab_size;
        written += (int64_t)masks * MIN(r->top_k, c->vocab_size) * n;
        if (written > MOST_TOKENS)
            return api_fail(
                e, 400, NULL, "top_k",
                "top_k is %d: the texts with the candidates have %lld tokens up to input %d, the limit is %d", r->top_k,
                (long long)written, i, MOST_TOKENS);
    }
    return 0;
}

/* The most probable token that is not among the first n of `taken`; ties go to the lower id. */
static int next_best(const Probabilities *p, const int *taken, int n) {
    int best = -1;
    for (int i = 0; i < p->n; i++) {
        bool is_taken = false;
        if (best >= 0 && !(p->mean[i] > p->mean[best])) continue;
        for (int k = 0; k < n && !is_taken; k++) is_taken = taken[k] == i;
        if (!is_taken) best = i;
    }
    return best;
}

static void put_decoded(Buffer *out, const char *key, const Tokenizer *t, const int *ids, int n) {
    size_t bytes;
    char *text = tokenizer_decode(t, ids, (size_t)n, &bytes);
    if (!text) out->failed = true;
    if (text) json_put_bytes(out, key, text, bytes);
    free(text);
}

/* The text with this token where the mask at `place` is, without what the tokenizer puts around a text. */
static void print_candidate(Buffer *out, const Pooling *r, PoolingInput *input, int place, int token,
                            const Probabilities *p) {
    const Tokenizer *t = r->ctx->api->tokenizer;
    int mask = input->ids[place], bos = input->ids[0] == tokenizer_bos(t),
        tail = input->ids[input->n - 1] == tokenizer_tail(t);
    json_open(out, NULL, '{');
    json_put_float(out, "score", p->mean[token]);
    if (r->request.noise_samples > 1) json_put_float(out, "spread", p->spread[token]);
    json_put_int(out, "token", token);
    put_decoded(out, "token_str", t, &token, 1);
    input->ids[place] = token;
    put_decoded(out, "sequence", t, input->ids + bos, MAX(input->n - bos - tail, 0));
    input->ids[place] = mask;
    json_close(out, '}');
}

static void print_mask(Buffer *out, const Pooling *r, int i, int place, int mask, Probabilities *p) {
    enum { MOST = 100 };
    int taken[MOST];
    if (!task_probabilities(p, r, i, mask)) {
        out->failed = true;
        return;
    }
    json_open(out, NULL, '{');
    json_put_int(out, "position", place);
    json_open(out, "candidates", '[');
    for (int k = 0; k < MIN(r->request.top_k, p->n); k++) {
        taken[k] = next_best(p, taken, k);
        print_candidate(out, r, &r->request.inputs[i], place, taken[k], p);
    }
    json_close(out, ']');
    if (r->request.noise_samples > 1) json_put_float(out, "mutual_information", (float)p->mutual_information);
    json_close(out, '}');
}

static void print_masks(Buffer *out, const Pooling *r, int i, Probabilities *p) {
    const PoolingInput *input = &r->request.inputs[i];
    int mask = 0;
    json_open(out, "masks", '[');
    for (int place = 0; place < input->n && !out->failed; place++)
        if (input->ids[place] == r->ctx->api->config->mask_token_id) print_mask(out, r, i, place, mask++, p);
    json_close(out, ']');
}

static int print(Buffer *out, const Pooling *r, int from) { return task_print(out, r, from, print_masks); }

static const PoolingForm form = {.settle = settle, .print = print};
const AnswerKind fill_mask_answer = POOLING_ANSWER(form);
