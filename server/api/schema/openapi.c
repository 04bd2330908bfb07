#include "server/api/schema/openapi.h"
#include "server/api/completions/request.h"
#include "base/err.h"
#include "base/random.h"
#include "server/api/schema/schema.h"

#include <string.h>

/* Schemas in answers.json of an answer in JSON and of a stream's event, or the media type of another answer. */
typedef struct Answer {
    const char *schema, *event, *media;
    bool unfit; /* a 503 has the form of the answer */
} Answer;

static const Answer answers[ROUTES] = {
    [ROUTE_COMPLETIONS] = {.schema = "Completion", .event = "CompletionEvent"},
    [ROUTE_CHAT] = {.schema = "Chat", .event = "ChatEvent"},
    [ROUTE_EMBEDDINGS] = {.schema = "Embeddings"},
    [ROUTE_CLASSIFY] = {.schema = "Classes"},
    [ROUTE_TAG] = {.schema = "Tags"},
    [ROUTE_FILL_MASK] = {.schema = "Masks"},
    [ROUTE_SCORE] = {.schema = "Score"},
    [ROUTE_REPLAY] = {.schema = "Replay"},
    [ROUTE_TOKENIZE] = {.schema = "Tokens"},
    [ROUTE_DETOKENIZE] = {.schema = "Text"},
    [ROUTE_MODELS] = {.schema = "Models"},
    [ROUTE_MODEL] = {.schema = "Model"},
    [ROUTE_MODELS_SHORT] = {.schema = "Models"},
    [ROUTE_TOKENIZER_INFO] = {.schema = "TokenizerInfo"},
    [ROUTE_PROPS] = {.schema = "Props"},
    [ROUTE_VERSION] = {.schema = "Version"},
    [ROUTE_LOAD] = {.schema = "Load"},
    [ROUTE_HEALTH] = {.schema = "Health", .unfit = true},
    [ROUTE_LIVE] = {.schema = "Live"},
    [ROUTE_METRICS] = {.media = "text/plain"},
    [ROUTE_NOISE] = {.schema = "Noise"},
    [ROUTE_PAGE] = {.media = "text/html"},
};

typedef struct Printer {
    Buffer *b;
    const ApiContext *ctx;
} Printer;

static void print_text(Buffer *b, const char *text) { buffer_json(b, text, strlen(text)); }

bool openapi_limit(const ApiContext *ctx, const char *limit, double *value) {
    const ApiLimits *l = &ctx->limits;
    const struct {
        const char *name;
        int value;
    } known[] = {{"--max-n", l->n},
                 {"--max-prompts", l->prompts},
                 {"--max-messages", l->messages},
                 {"--max-logit-bias", l->logit_bias},
                 {"--max-stop", l->stop},
                 {"--max-stop-bytes", l->stop_bytes},
                 {"vocab_size - 1", ctx->config->vocab_size - 1}};
    for (size_t i = 0; i < COUNTOF(known); i++)
        if (!strcmp(known[i].name, limit)) {
            *value = known[i].value;
            return true;
        }
    return false;
}

/* ---- what a field takes ---- */

/* ,"maximum":20 */
static void print_bound(const Printer *p, const char *key, double value) {
    buffer_print(p->b, ",\"%s\":%.16g", key, value);
}

static void print_number(const Printer *p, const char *type, double low, double high, const char *limit) {
    if (limit) openapi_limit(p->ctx, limit, &high);
    buffer_print(p->b, "\"type\":%s", type);
    print_bound(p, "minimum", low);
    print_bound(p, "maximum", high);
}

static void print_sized(const Printer *p, const Type *t, const char *type, const char *least, const char *most) {
    double high = t->high;
    if (t->limit) openapi_limit(p->ctx, t->limit, &high);
    buffer_print(p->b, "\"type\":%s", type);
    if (t->low > 0) print_bound(p, least, t->low);
    if (high > 0 || t->limit) print_bound(p, most, high);
}

static void print_type(const Printer *p, const Type *t, bool or_null);

static void print_element(const Printer *p, const char *key, const Type *t) {
    buffer_print(p->b, ",\"%s\":", key);
    print_type(p, t, false);
}

static void print_one_of(const Printer *p, const Type *t, bool or_null) {
    buffer_text(p->b, "\"anyOf\":[");
    for (size_t i = 0; i < COUNTOF(t->of) && t->of[i]; i++) {
        if (i) buffer_text(p->b, ",");
        print_type(p, t->of[i], false);
    }
    buffer_text(p->b, or_null ? ",{\"type\":\"null\"}]" : "]");
}

/* The members of a schema, without braces. */
static void print_members(const Printer *p, const Type *t, bool or_null) {
    if (t->schema) {
        buffer_print(p->b, "\"anyOf\":[%s%s]", t->schema, or_null ? ",{\"type\":\"null\"}" : "");
        return;
    }
#define TYPE(name) (or_null ? "[\"" name "\",\"null\"]" : "\"" name "\"")
    switch (t->kind) {
    case TYPE_INTEGER:
        print_number(p, TYPE("integer"), t->low, t->high, t->limit);
        return;
    case TYPE_NUMBER:
        print_number(p, TYPE("number"), t->low, t->high, t->limit);
        return;
    case TYPE_BOOLEAN:
        buffer_print(p->b, "\"type\":%s", TYPE("boolean"));
        return;
    case TYPE_STRING:
        print_sized(p, t, TYPE("string"), "minLength", "maxLength");
        return;
    case TYPE_ARRAY:
        print_sized(p, t, TYPE("array"), "minItems", "maxItems");
        print_element(p, "items", t->of[0]);
        return;
    case TYPE_MAP:
        print_sized(p, t, TYPE("object"), "minProperties", "maxProperties");
        print_element(p, "additionalProperties", t->of[0]);
        return;
    case TYPE_ONE_OF:
        print_one_of(p, t, or_null);
        return;
    }
#undef TYPE
}

static void print_type(const Printer *p, const Type *t, bool or_null) {
    if (t->schema && !or_null) {
        buffer_text(p->b, t->schema);
        return;
    }
    buffer_text(p->b, "{");
    print_members(p, t, or_null);
    buffer_text(p->b, "}");
}

/* ---- fields ---- */

static void print_fields(const Printer *p, const FieldList *list);

static void print_neutral(const Printer *p, const char *values) {
    if (!values) return;
    size_t n = strlen(values);
    buffer_print(p->b, ",\"enum\":%.*s%snull]", (int)n - 1, values, n > 2 ? "," : "");
}

static void print_kind(const Printer *p, const Field *f, bool or_null) {
    switch (f->kind) {
    case FIELD_INT:
        print_members(p, &(Type){.kind = TYPE_INTEGER, .low = f->low, .high = f->high, .limit = f->limit}, true);
        return;
    case FIELD_FLOAT:
        print_members(p, &(Type){.kind = TYPE_NUMBER, .low = f->low, .high = f->high, .limit = f->limit}, true);
        return;
    case FIELD_BOOL:
        print_members(p, &(Type){.kind = TYPE_BOOLEAN}, true);
        return;
    case FIELD_SEED:
        print_members(p, &(Type){.kind = TYPE_INTEGER, .high = (double)SEED_MAX}, true);
        return;
    case FIELD_FOLDED:
        buffer_text(p->b, "\"type\":[\"integer\",\"null\"],\"format\":\"int64\"");
        return;
    case FIELD_TEXT:
        print_members(p, &(Type){.kind = TYPE_STRING, .high = f->high}, true);
        return;
    case FIELD_OBJECT:
        buffer_text(p->b, "\"type\":[\"object\",\"null\"],");
        print_fields(p, f->fields);
        return;
    case FIELD_OTHER:
        print_members(p, f->type, or_null);
        return;
    case FIELD_NEUTRAL:
    case FIELD_NONE:
        return;
    }
}

/* A default that is words stands in the description. */
static void print_field(const Printer *p, const FieldList *list, const Field *f) {
    Buffer description = {0};
    bool required = f->absent && !strcmp(f->absent, "required");
    print_text(p->b, f->name);
    buffer_text(p->b, ":{");
    print_kind(p, f, !required);
    if (f->kind == FIELD_NEUTRAL) {
        buffer_print(&description, "Changes nothing here; %s.", f->help);
    } else {
        buffer_text(&description, f->help);
        Buffer value = {0};
        bool elsewhere = f->absent && f->absent[0] == '`'; /* another field's value */
        if (!elsewhere && api_print_default(&value, p->ctx->generation, list, f))
            buffer_print(p->b, ",\"default\":%.*s", (int)value.n, value.data);
        else if (!required)
            buffer_print(&description, " Default: %s.", f->absent);
        p->b->failed |= value.failed;
        buffer_free(&value);
    }
    if (p->b->failed) { /* perhaps it holds nothing to look back at */
        buffer_free(&description);
        return;
    }
    buffer_print(p->b, "%s\"description\":", p->b->data[p->b->n - 1] == '{' ? "" : ",");
    buffer_json(p->b, description.data, description.n);
    p->b->failed |= description.failed;
    buffer_free(&description);
    if (f->kind == FIELD_NEUTRAL) print_neutral(p, f->neutral);
    buffer_text(p->b, "}");
}

static void print_required(const Printer *p, const FieldList *list) {
    const char *separator = ",\"required\":[";
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        if (!f->absent || strcmp(f->absent, "required")) continue;
        buffer_text(p->b, separator);
        print_text(p->b, f->name);
        separator = ",";
    }
    if (*separator == ',' && !separator[1]) buffer_text(p->b, "]");
}

/* "properties" and what goes with them, of a list and those that are looked at next. */
static void print_fields(const Printer *p, const FieldList *list) {
    const char *separator = "";
    buffer_text(p->b, "\"additionalProperties\":false,\"properties\":{");
    for (const FieldList *l = list; l; l = l->also)
        for (const Field *f = l->rows; f < l->rows + l->n; f++) {
            if (fields_find(list, f->name) != f) continue;
            buffer_text(p->b, separator);
            print_field(p, list, f);
            separator = ",";
        }
    buffer_text(p->b, "}");
    print_required(p, list);
    if (list->either[0])
        buffer_print(p->b, ",\"anyOf\":[{\"required\":[\"%s\"]},{\"required\":[\"%s\"]}]", list->either[0],
                     list->either[1]);
}

/* ---- routes ---- */

static void print_content(Buffer *b, const Answer *a) {
    buffer_text(b, "\"content\":{");
    if (a->schema)
        buffer_print(b, "\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}", a->schema);
    else
        buffer_print(b, "\"%s\":{}", a->media ? a->media : "application/json");
    if (a->event)
        buffer_print(b, ",\"text/event-stream\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}", a->event);
    buffer_text(b, "}");
}

static void print_response(Buffer *b, const char *status, const char *what, const Answer *a) {
    buffer_print(b,
                 "\"%s\":{\"description\":\"%s\",\"headers\":{\"x-request-id\":{\"$ref\":"
                 "\"#/components/headers/RequestId\"}},",
                 status, what);
    print_content(b, a);
    buffer_text(b, "},");
}

static void print_responses(Buffer *b, const Answer *a) {
    buffer_text(b, ",\"responses\":{");
    print_response(b, "200", a->event ? "The answer, or its stream" : "The answer", a);
    if (a->unfit) print_response(b, "503", "Not now", a);
    buffer_text(b, "\"4XX\":{\"$ref\":\"#/components/responses/Error\"},"
                   "\"5XX\":{\"$ref\":\"#/components/responses/Error\"}}");
}

/* The parameter without its braces. */
static void print_parameters(Buffer *b, const Route *r) {
    buffer_text(b, "\"parameters\":[{\"$ref\":\"#/components/parameters/RequestId\"}");
    if (r->parameter)
        buffer_print(b,
                     ",{\"name\":\"%.*s\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\"},"
                     "\"description\":\"May hold slashes as they are.\"}",
                     (int)strlen(r->parameter) - 2, r->parameter + 1);
    buffer_text(b, "],");
}

static void print_head(Buffer *b, const Route *r, const char *method) {
    buffer_print(b, "\"%s\":{\"summary\":", method);
    print_text(b, r->help);
    buffer_text(b, ",");
    if (r->open) buffer_text(b, "\"security\":[],");
    print_parameters(b, r);
}

static void print_route(const Printer *p, const Route *r) {
    Buffer *b = p->b;
    buffer_print(b, "\"%s%s\":{", r->path, r->parameter ? r->parameter : "");
    print_head(b, r, r->body ? "post" : "get");
    if (r->body) {
        buffer_text(b, "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{"
                       "\"type\":\"object\",");
        print_fields(p, r->body);
        buffer_text(b, "}}}}");
    } else {
        buffer_text(b, "\"operationId\":");
        print_text(b, r->path);
    }
    print_responses(b, &answers[r - routes]);
    buffer_text(b, "}");
    if (!r->body) {
        buffer_text(b, ",");
        print_head(b, r, "head");
        buffer_text(b, "\"responses\":{\"default\":{\"description\":\"The headers of the answer to GET\"}}}");
    }
    buffer_text(b, "}");
}

static void print_info(Buffer *b, bool keys) {
    buffer_print(
        b, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"noised\",\"version\":\"%s\",\"description\":", NOISED_VERSION);
    print_text(b, "Text from a small language model whose noise has a seed: the same request gives the same bytes. "
                  "`null` means absent. Bodies are read as JSON whatever their Content-Type says; strings hold no "
                  "U+0000, and where they are limited it is in bytes. Query strings are ignored. Browsers' preflights "
                  "(OPTIONS) are answered where the daemon has a --cors-origin.");
    buffer_text(b, "},\"servers\":[{\"url\":\"/\"}],\"security\":[");
    if (keys) buffer_text(b, "{\"Bearer\":[]},{\"XApiKey\":[]}");
    buffer_text(b, "],\"paths\":{");
}

void openapi_print(Buffer *b, const ApiContext *ctx, bool keys) {
    const Printer p = {b, ctx};
    print_info(b, keys);
    for (const Route *r = routes; r < routes + ROUTES; r++) {
        if (r > routes) buffer_text(b, ",");
        print_route(&p, r);
    }
    buffer_print(b, "},\"components\":");
    buffer_text(b, openapi_answers);
    buffer_text(b, "}");
}
