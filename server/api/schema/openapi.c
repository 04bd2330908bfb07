#include "server/api/schema/openapi.h"
#include "server/api/completions/request.h"
#include "base/json_write.h"
#include "base/err.h"
#include "base/random.h"
#include "base/text.h"
#include "server/api/schema/schema.h"

#include <ctype.h>
#include <string.h>

typedef struct Printer {
    Buffer *b;
    const ApiContext *ctx;
} Printer;

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

static void put_type_name(Buffer *b, const char *type, bool or_null) {
    if (!or_null) {
        json_put_text(b, "type", type);
        return;
    }
    json_open(b, "type", '[');
    json_put_text(b, NULL, type);
    json_put_text(b, NULL, "null");
    json_close(b, ']');
}

static void put_null_schema(Buffer *b) {
    json_open(b, NULL, '{');
    json_put_text(b, "type", "null");
    json_close(b, '}');
}

static void put_number(const Printer *p, const Type *t) {
    enum { DIGITS = 16 }; /* all that the largest seed has */
    double high = t->high;
    if (t->limit) openapi_limit(p->ctx, t->limit, &high);
    json_put_rounded(p->b, "minimum", t->low, DIGITS);
    json_put_rounded(p->b, "maximum", high, DIGITS);
}

static void put_size(const Printer *p, const Type *t, const char *least, const char *most) {
    double high = t->high;
    if (t->limit) openapi_limit(p->ctx, t->limit, &high);
    if (t->low > 0) json_put_double(p->b, least, t->low);
    if (high > 0 || t->limit) json_put_double(p->b, most, high);
}

static void put_schema(const Printer *p, const char *key, const Type *t);

static void put_one_of(const Printer *p, const Type *t, bool or_null) {
    json_open(p->b, "anyOf", '[');
    if (t->schema)
        json_put_raw(p->b, NULL, t->schema, strlen(t->schema));
    else
        for (size_t i = 0; i < COUNTOF(t->of) && t->of[i]; i++) put_schema(p, NULL, t->of[i]);
    if (or_null) put_null_schema(p->b);
    json_close(p->b, ']');
}

/* The members of a schema. */
static void put_members(const Printer *p, const Type *t, bool or_null) {
    static const char *const names[] = {
        [TYPE_INTEGER] = "integer", [TYPE_NUMBER] = "number", [TYPE_BOOLEAN] = "boolean",
        [TYPE_STRING] = "string",   [TYPE_ARRAY] = "array",   [TYPE_MAP] = "object"};
    if (t->schema || t->kind == TYPE_ONE_OF) {
        put_one_of(p, t, or_null);
        return;
    }
    put_type_name(p->b, names[t->kind], or_null);
    if (t->kind == TYPE_INTEGER || t->kind == TYPE_NUMBER) put_number(p, t);
    if (t->kind == TYPE_STRING) put_size(p, t, "minLength", "maxLength");
    if (t->kind == TYPE_ARRAY) put_size(p, t, "minItems", "maxItems");
    if (t->kind == TYPE_MAP) put_size(p, t, "minProperties", "maxProperties");
    if (t->kind == TYPE_ARRAY) put_schema(p, "items", t->of[0]);
    if (t->kind == TYPE_MAP) put_schema(p, "additionalProperties", t->of[0]);
}

static void put_schema(const Printer *p, const char *key, const Type *t) {
    if (t->schema) {
        json_put_raw(p->b, key, t->schema, strlen(t->schema));
        return;
    }
    json_open(p->b, key, '{');
    put_members(p, t, false);
    json_close(p->b, '}');
}

/* ---- fields ---- */

static void put_fields(const Printer *p, const FieldList *list);

static void put_neutral(const Printer *p, const char *values) {
    if (!values) return;
    json_open(p->b, "enum", '[');
    json_put_raw(p->b, NULL, values + 1, strlen(values) - 2); /* without its brackets */
    json_put_null(p->b, NULL);
    json_close(p->b, ']');
}

static void put_kind(const Printer *p, const Field *f, bool or_null) {
    switch (f->kind) {
    case FIELD_INT:
        put_members(p, &(Type){.kind = TYPE_INTEGER, .low = f->low, .high = f->high, .limit = f->limit}, true);
        return;
    case FIELD_FLOAT:
        put_members(p, &(Type){.kind = TYPE_NUMBER, .low = f->low, .high = f->high, .limit = f->limit}, true);
        return;
    case FIELD_BOOL:
        put_members(p, &(Type){.kind = TYPE_BOOLEAN}, true);
        return;
    case FIELD_SEED:
        put_members(p, &(Type){.kind = TYPE_INTEGER, .high = (double)SEED_MAX}, true);
        return;
    case FIELD_FOLDED:
        put_type_name(p->b, "integer", true);
        json_put_text(p->b, "format", "int64");
        return;
    case FIELD_TEXT:
        put_members(p, &(Type){.kind = TYPE_STRING, .high = f->high}, true);
        return;
    case FIELD_OBJECT:
        put_type_name(p->b, "object", true);
        put_fields(p, f->fields);
        return;
    case FIELD_OTHER:
        put_members(p, f->type, or_null);
        return;
    case FIELD_NEUTRAL:
    case FIELD_NONE:
        return;
    }
}

/* A default that is words stands in the description, and so does another field's value. */
static void put_field(const Printer *p, const FieldList *list, const Field *f) {
    Buffer description = {0};
    bool required = f->absent && !strcmp(f->absent, "required"), elsewhere = f->absent && f->absent[0] == '`';
    json_open(p->b, f->name, '{');
    put_kind(p, f, !required);
    if (f->kind == FIELD_NEUTRAL) {
        buffer_print(&description, "Changes nothing here; %s.", f->help);
    } else {
        buffer_text(&description, f->help);
        bool put = !elsewhere && api_put_default(p->b, "default", p->ctx->generation, list, f);
        if (!put && !required) buffer_print(&description, " Default: %s.", f->absent);
    }
    json_put_bytes(p->b, "description", description.data, description.n);
    p->b->failed |= description.failed;
    buffer_free(&description);
    if (f->kind == FIELD_NEUTRAL) put_neutral(p, f->neutral);
    json_close(p->b, '}');
}

static void put_required(const Printer *p, const FieldList *list) {
    bool any = false;
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        if (!f->absent || strcmp(f->absent, "required")) continue;
        if (!any) json_open(p->b, "required", '[');
        json_put_text(p->b, NULL, f->name);
        any = true;
    }
    if (any) json_close(p->b, ']');
}

static void put_alternative(Buffer *b, const char *name) {
    json_open(b, NULL, '{');
    json_open(b, "required", '[');
    json_put_text(b, NULL, name);
    json_close(b, ']');
    json_close(b, '}');
}

/* "properties" and what goes with them, of a list and those that are looked at next. */
static void put_fields(const Printer *p, const FieldList *list) {
    json_put_bool(p->b, "additionalProperties", list->more);
    json_open(p->b, "properties", '{');
    for (const FieldList *l = list; l; l = l->also)
        for (const Field *f = l->rows; f < l->rows + l->n; f++)
            if (fields_find(list, f->name) == f) put_field(p, list, f);
    json_close(p->b, '}');
    put_required(p, list);
    if (!list->either[0]) return;
    json_open(p->b, "anyOf", '[');
    for (int i = 0; i < 3 && list->either[i]; i++) put_alternative(p->b, list->either[i]);
    json_close(p->b, ']');
}

/* ---- routes ---- */

static void put_reference(Buffer *b, const char *key, const char *kind, const char *name) {
    char path[96];
    snprintf(path, sizeof path, "#/components/%s/%s", kind, name);
    json_open(b, key, '{');
    json_put_text(b, "$ref", path);
    json_close(b, '}');
}

/* A medium's name and the schema of what it holds; NULL: any. */
static void put_medium(Buffer *b, const char *medium, const char *schema) {
    json_open(b, medium, '{');
    if (schema) put_reference(b, "schema", "schemas", schema);
    json_close(b, '}');
}

static void put_response(Buffer *b, const char *status, const char *what, const Route *r) {
    json_open(b, status, '{');
    json_put_text(b, "description", what);
    json_open(b, "headers", '{');
    put_reference(b, "x-request-id", "headers", "RequestId");
    put_reference(b, "traceparent", "headers", "TraceParent");
    json_close(b, '}');
    json_open(b, "content", '{');
    put_medium(b, r->schema || !r->media ? "application/json" : r->media, r->schema);
    if (r->event) put_medium(b, "text/event-stream", r->event);
    json_close(b, '}');
    json_close(b, '}');
}

static void put_responses(Buffer *b, const Route *r) {
    json_open(b, "responses", '{');
    put_response(b, "200", r->event ? "The answer, or its stream" : "The answer", r);
    if (r->unfit) put_response(b, "503", "Not now", r);
    put_reference(b, "4XX", "responses", "Error");
    put_reference(b, "5XX", "responses", "Error");
    json_close(b, '}');
}

static void put_parameters(Buffer *b, const Route *r) {
    json_open(b, "parameters", '[');
    put_reference(b, NULL, "parameters", "RequestId");
    put_reference(b, NULL, "parameters", "TraceParent");
    if (r->parameter) {
        json_open(b, NULL, '{');
        json_put_bytes(b, "name", r->parameter + 1, strlen(r->parameter) - 2); /* without its braces */
        json_put_text(b, "in", "path");
        json_put_bool(b, "required", true);
        json_open(b, "schema", '{');
        json_put_text(b, "type", "string");
        json_close(b, '}');
        json_put_text(b, "description", "May hold slashes as they are.");
        json_close(b, '}');
    }
    json_close(b, ']');
}

/* The name of the function that a generated client calls: "chat_completions", "head_models". */
static void put_operation(Buffer *b, const Route *r, const char *before) {
    char name[96];
    snprintf(name, sizeof name, "%s%s%s", before, r->path + (text_begins(r->path, "/v1/") ? 4 : 1),
             !r->path[1]    ? "page"
             : r->parameter ? r->parameter
                            : "");
    size_t n = 0;
    for (const char *c = name; *c; c++)
        if (*c != '{' && *c != '}') name[n++] = isalnum((unsigned char)*c) ? *c : '_';
    json_put_bytes(b, "operationId", name, n);
}

/* Where else it answers. */
static void put_also(Buffer *b, const Route *r) {
    Buffer text = {0};
    for (size_t i = 0; i < COUNTOF(r->also) && r->also[i]; i++)
        buffer_print(&text, "%s %s%s", i ? "," : "Also as", r->also[i], r->parameter ? r->parameter : "");
    if (text.n) json_put_bytes(b, "description", text.data, text.n);
    b->failed |= text.failed;
    buffer_free(&text);
}

/* Left open. */
static void put_head(const Printer *p, const Route *r, const char *method) {
    Buffer *b = p->b;
    json_open(b, method, '{');
    put_operation(b, r, strcmp(method, "head") ? "" : "head_");
    json_put_text(b, "summary", r->help);
    put_also(b, r);
    if (route_is_open(r, &p->ctx->models)) json_put_raw(b, "security", "[]", 2);
    put_parameters(b, r);
}

static void put_body(const Printer *p, const FieldList *fields) {
    json_open(p->b, "requestBody", '{');
    json_put_bool(p->b, "required", true);
    json_open(p->b, "content", '{');
    json_open(p->b, "application/json", '{');
    json_open(p->b, "schema", '{');
    json_put_text(p->b, "type", "object");
    put_fields(p, fields);
    for (int i = 0; i < 4; i++) json_close(p->b, '}');
}

static void put_head_route(const Printer *p, const Route *r) {
    Buffer *b = p->b;
    put_head(p, r, "head");
    json_open(b, "responses", '{');
    json_open(b, "default", '{');
    json_put_text(b, "description", "The headers of the answer to GET");
    for (int i = 0; i < 3; i++) json_close(b, '}');
}

static void put_route(const Printer *p, const Route *r) {
    Buffer *b = p->b;
    char path[96];
    snprintf(path, sizeof path, "%s%s", r->path, r->parameter ? r->parameter : "");
    json_open(b, path, '{');
    put_head(p, r, r->body ? "post" : "get");
    if (r->body) put_body(p, r->body);
    put_responses(b, r);
    json_close(b, '}');
    if (!r->body) put_head_route(p, r);
    json_close(b, '}');
}

static void put_scheme(Buffer *b, const char *scheme) {
    json_open(b, NULL, '{');
    json_put_raw(b, scheme, "[]", 2);
    json_close(b, '}');
}

static void put_info(Buffer *b, bool keys) {
    json_put_text(b, "openapi", "3.1.0");
    json_open(b, "info", '{');
    json_put_text(b, "title", "noised");
    json_put_text(b, "version", NOISED_VERSION);
    json_put_text(b, "description",
                  "Text from a small language model whose noise has a seed: the same request gives the same bytes. "
                  "`null` means absent. Bodies are read as JSON whatever their Content-Type says; strings hold no "
                  "U+0000, and where they are limited it is in bytes. Query strings are ignored. Browsers' preflights "
                  "(OPTIONS) are answered where the daemon has a --cors-origin.");
    json_close(b, '}');
    json_put_raw(b, "servers", "[{\"url\":\"/\"}]", 13);
    json_open(b, "security", '[');
    if (keys) put_scheme(b, "Bearer");
    if (keys) put_scheme(b, "XApiKey");
    json_close(b, ']');
}

void openapi_print(Buffer *b, const ApiContext *ctx, bool keys) {
    const Printer p = {b, ctx};
    json_open(b, NULL, '{');
    put_info(b, keys);
    json_open(b, "paths", '{');
    for (const Route *r = routes; r->path; r++) put_route(&p, r);
    json_close(b, '}');
    json_put_raw(b, "components", openapi_answers, strlen(openapi_answers));
    json_close(b, '}');
}
