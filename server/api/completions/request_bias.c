/* The field "logit_bias": token ids and texts with their biases, as an object or as an array of pairs. */
#include "base/err.h"
#include "base/memory.h"
#include "server/api/completions/request_draft.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const Type boolean = {.kind = TYPE_BOOLEAN}, number = {.kind = TYPE_NUMBER, .low = -100, .high = 100};
static const Type bias = {.kind = TYPE_ONE_OF, .of = {&number, &boolean}};
static const Type map = {.kind = TYPE_MAP, .limit = "--max-logit-bias", .of = {&bias}};
static const Type part = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &api_id_type, &number, &boolean}};
static const Type pair = {.kind = TYPE_ARRAY, .low = 2, .high = 2, .of = {&part}};
static const Type pairs = {.kind = TYPE_ARRAY, .limit = "--max-logit-bias", .of = {&pair}};
const Type api_bias_type = {.kind = TYPE_ONE_OF, .of = {&map, &pairs}};

static const char forms[] = "an object of token ids or texts and their biases, or an array of such pairs";

static int read_bias(const FieldReader *r, const cJSON *item, float *out) {
    static const float NEVER = -1e9f; /* finite: of tokens that are all banned one can be drawn still */
    *out = NEVER;
    if (cJSON_IsFalse(item)) return 0;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= -100 && item->valuedouble <= 100))
        return field_fail(r, item, "token ids or texts with numbers between -100 and 100, or false");
    *out = (float)item->valuedouble;
    return 0;
}

typedef struct Biases {
    const FieldReader *reader;
    LogitBias *list; /* [limits.logit_bias], the first n in use */
    int n;
} Biases;

static int add(Biases *b, int id, float value) {
    const FieldReader *r = b->reader;
    int most = ((const ApiContext *)r->context)->limits.logit_bias;
    if (b->n == most)
        return api_fail(r->error, 400, NULL, r->name, "logit_bias has more than %d tokens, the limit", most);
    b->list[b->n++] = (LogitBias){.id = id, .bias = value};
    return 0;
}

static int add_text(Biases *b, const char *words, float value) {
    const FieldReader *r = b->reader;
    const ApiContext *ctx = r->context;
    TokenList list = {0};
    Err err;
    int rc = 0;
    if (tokenizer_encode(ctx->tokenizer, words, strlen(words), true, &list, &err))
        rc = api_fail(r->error, 400, NULL, r->name, "%s", err.msg);
    else if (list.n == 0)
        rc = api_fail(r->error, 400, NULL, r->name, "logit_bias names a text without tokens");
    for (size_t i = 0; i < list.n && rc == 0; i++) rc = add(b, list.ids[i], value);
    token_list_free(&list);
    return rc;
}

/* What looks like a number is one. */
static bool is_number(const char *key) {
    key += *key == '-' || *key == '+';
    if (!*key) return false;
    while (isdigit((unsigned char)*key)) key++;
    return !*key;
}

/* Decimal digits without leading zeros, below limit; -1 otherwise. */
static int parse_id(const char *key, int limit) {
    long id = 0;
    if (!*key || (*key == '0' && key[1])) return -1;
    for (; *key; key++) {
        if (*key < '0' || *key > '9') return -1;
        id = id * 10 + (*key - '0');
        if (id >= limit) return -1;
    }
    return (int)id;
}

static int read_member(Biases *b, const cJSON *item) {
    const FieldReader *r = b->reader;
    int vocab = ((const ApiContext *)r->context)->config->vocab_size, id = parse_id(item->string, vocab);
    float value;
    if (read_bias(r, item, &value)) return -1;
    if (id >= 0) return add(b, id, value);
    if (!is_number(item->string)) return add_text(b, item->string, value);
    return api_fail(r->error, 400, NULL, r->name, "logit_bias names \"%.60s\", token ids are 0 to %d", item->string,
                    vocab - 1);
}

static int read_pair(Biases *b, const cJSON *item) {
    const FieldReader *r = b->reader;
    int vocab = ((const ApiContext *)r->context)->config->vocab_size;
    int64_t id;
    float value;
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2) return field_fail(r, item, forms);
    const cJSON *token = item->child;
    if (read_bias(r, token->next, &value)) return -1;
    if (cJSON_IsString(token)) return add_text(b, token->valuestring, value);
    if (json_integer(token, 0, vocab - 1, &id)) return add(b, (int)id, value);
    char what[80];
    snprintf(what, sizeof what, "pairs of a text, or a token id between 0 and %d, and a bias", vocab - 1);
    return field_fail(r, token, what);
}

/* By value too, so that sums do not depend on how they were sorted. */
static int compare(const void *a, const void *b) {
    const LogitBias *x = a, *y = b;
    return x->id != y->id ? x->id - y->id : (x->bias > y->bias) - (x->bias < y->bias);
}

/* The biases of one token add up. */
static void join(Biases *b) {
    int n = 0;
    qsort(b->list, (size_t)b->n, sizeof *b->list, compare);
    for (int i = 0; i < b->n; i++) {
        if (n > 0 && b->list[n - 1].id == b->list[i].id)
            b->list[n - 1].bias += b->list[i].bias;
        else
            b->list[n++] = b->list[i];
    }
    b->n = n;
}

int api_bias_read(const FieldReader *r, const cJSON *item) {
    Sampling *sampling = &((RequestDraft *)r->out)->request.sampling;
    const ApiContext *ctx = r->context;
    bool object = cJSON_IsObject(item);
    if (!object && !cJSON_IsArray(item)) return field_fail(r, item, forms);
    Biases b = {.reader = r, .list = try_calloc((size_t)ctx->limits.logit_bias + 1, sizeof *b.list)};
    if (!b.list) return api_no_memory(r->error);
    sampling->bias = b.list;
    for (const cJSON *entry = item->child; entry; entry = entry->next)
        if (object ? read_member(&b, entry) : read_pair(&b, entry)) return -1;
    join(&b);
    sampling->n_bias = b.n;
    return 0;
}
