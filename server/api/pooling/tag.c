/* POST /v1/tag */
#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/tags.h"
#include "base/utf8.h"
#include "model/shape.h"
#include "server/api/completions/prompt.h"
#include "server/api/pooling/probabilities.h"
#include "server/api/pooling/tasks.h"

#include <stdlib.h>
#include <string.h>
#include <unictype.h>

static const Type texts_type = {.kind = TYPE_ARRAY, .low = 1, .of = {&api_text_type}},
                  input_type = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &texts_type}};

static const Field rows[] = {
    {.name = "input",
     .kind = FIELD_OTHER,
     .offset = offsetof(PoolingRequest, input),
     .type = &input_type,
     .absent = "required",
     .help = "The texts. What stands between white space is a word, and has a label: the trainer's words."},
};

const FieldList tag_fields = {.rows = rows, .n = COUNTOF(rows), .also = &task_fields};

/* ---- words ---- */

/* Bytes of the character at text[0..n), and whether it is white space of Unicode, as tokenizers of words cut it. */
static size_t look(const char *text, size_t n, bool *white) {
    size_t length = utf8_char_length(text, n);
    *white = uc_is_property_white_space(utf8_get(text, length));
    return length;
}

/* The next word at or behind *at, whose characters are counted along in *chars; false: there is none. */
static bool next_word(const char *text, size_t n, size_t *at, int *chars, PoolingWord *word) {
    bool white = false;
    size_t length;
    for (; *at < n && (length = look(text + *at, n - *at, &white), white); *at += length) ++*chars;
    *word = (PoolingWord){.first = (int)*at, .start = *chars};
    for (; *at < n && (length = look(text + *at, n - *at, &white), !white); *at += length) ++*chars;
    word->n = (int)*at - word->first;
    word->end = *chars;
    return word->n > 0;
}

/* A word's label stands at the row of its last token, of the words with single spaces between them, as in training.
 * Words that the context does not hold are none. */
static int encode_words(const PoolingRequest *r, PoolingInput *input, const ApiContext *ctx, char *joined, size_t *ends,
                        int *rows_of, ApiError *e) {
    TokenList list = {0};
    size_t n = 0;
    Err err;
    for (int w = 0; w < input->n_words; w++) {
        const PoolingWord *word = &input->words[w];
        if (w) joined[n++] = ' ';
        memcpy(joined + n, input->text + word->first, (size_t)word->n);
        ends[w] = n += (size_t)word->n;
    }
    const int most = ctx->config->max_positions;
    int rc = tokenizer_encode_words(ctx->tokenizer, joined, ends, input->n_words, most, &list, rows_of, &err);
    input->ids = list.ids;
    input->n = (int)list.n;
    if (rc) return api_fail(e, 400, NULL, "input", "%s", err.msg);
    if (input->n == 0) return api_fail(e, 400, NULL, "input", "input %d has no tokens", r->n_inputs - 1);
    for (int w = 0; w < input->n_words; w++) {
        input->words[w].row = MIN(MAX(rows_of[w], 0), input->n - 1);
        if (rows_of[w] >= most) input->n_words = w;
    }
    return 0;
}

static int read_text(PoolingRequest *r, const cJSON *item, const ApiContext *ctx, ApiError *e) {
    if (!cJSON_IsString(item)) return api_fail(e, 400, NULL, "input", "input must be a string or an array of strings");
    PoolingInput *input = &r->inputs[r->n_inputs++];
    size_t n = strlen(item->valuestring), at = 0;
    int chars = 0;
    input->text = item->valuestring;
    const size_t most = n / 2 + 2; /* words, and the one that is not there */
    input->words = try_calloc(most, sizeof *input->words);
    char *joined = try_malloc(n + 1);
    size_t *ends = try_calloc(most, sizeof *ends);
    int *rows_of = try_calloc(most, sizeof *rows_of);
    int rc = input->words && joined && ends && rows_of ? 0 : api_no_memory(e);
    while (rc == 0 && next_word(input->text, n, &at, &chars, &input->words[input->n_words])) input->n_words++;
    if (rc == 0 && input->n_words == 0) rc = api_fail(e, 400, NULL, "input", "input %d has no words", r->n_inputs - 1);
    if (rc == 0) rc = encode_words(r, input, ctx, joined, ends, rows_of, e);
    free(joined);
    free(ends);
    free(rows_of);
    input->n_values = MIN(input->n, ctx->config->max_positions) * config_outputs(ctx->config);
    return rc;
}

static int settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    if (task_settle(r, ctx, TASK_TOKEN_CLASSIFICATION, TASK_TOKEN_CLASSIFICATION, e)) return -1;
    return pooling_read_each(r, ctx, read_text, "texts", e);
}

/* ---- the answer ---- */

typedef struct Tagged {
    const char *label;
    float score;
} Tagged;

/* Left open. */
static void print_span(Buffer *out, const PoolingInput *input, int first, int last, const char *label, float score) {
    const PoolingWord *a = &input->words[first], *b = &input->words[last];
    json_open(out, NULL, '{');
    json_put_int(out, "start", a->start);
    json_put_int(out, "end", b->end);
    json_put_bytes(out, "text", input->text + a->first, (size_t)(b->first + b->n - a->first));
    json_put_text(out, "label", label);
    json_put_float(out, "score", score);
}

/* Chunks of words; an entity's score is the mean of its words'. */
static void print_entities(Buffer *out, const PoolingInput *input, const Tagged *tags) {
    json_open(out, "entities", '[');
    for (int w = 0, last; w < input->n_words; w = last + 1) {
        double sum = (double)tags[w].score;
        last = w;
        if (tag_is_outside(tags[w].label)) continue;
        while (last + 1 < input->n_words && !tag_is_outside(tags[last + 1].label) &&
               !tag_is_boundary(tags[last].label, tags[last + 1].label))
            sum += (double)tags[++last].score;
        print_span(out, input, w, last, tag_type(tags[w].label), (float)(sum / (last - w + 1)));
        json_close(out, '}');
    }
    json_close(out, ']');
}

/* Whether the labels are those of chunks (tags.h); others have no entities. */
static bool has_chunks(const Labels *l) {
    for (int i = 0; i < l->n; i++)
        if (!tag_is_one(labels_name(l, i))) return false;
    return true;
}

static void print_input(Buffer *out, const Pooling *r, int i, Probabilities *p) {
    const PoolingInput *input = &r->request.inputs[i];
    const Labels *labels = r->ctx->api->labels;
    Tagged *tags = try_calloc((size_t)input->n_words + 1, sizeof *tags);
    if (!tags) out->failed = true;
    json_open(out, "tokens", '[');
    for (int w = 0; w < input->n_words && !out->failed; w++) {
        if (!task_probabilities(p, r, i, input->words[w].row)) out->failed = true;
        int best = probabilities_best(p);
        tags[w] = (Tagged){.label = labels_name(labels, best), .score = p->mean[best]};
        print_span(out, input, w, w, tags[w].label, tags[w].score);
        task_print_uncertainty(out, r, p);
        json_close(out, '}');
    }
    json_close(out, ']');
    if (!out->failed && has_chunks(labels)) print_entities(out, input, tags);
    free(tags);
}

static int print(Buffer *out, const Pooling *r, int from) { return task_print(out, r, from, print_input); }

static const PoolingForm form = {.settle = settle, .print = print};
const AnswerKind tag_answer = POOLING_ANSWER(form);
