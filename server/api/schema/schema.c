#include "server/api/schema/schema.h"

#include "base/err.h"
#include "base/options/guess.h"
#include "base/random.h"
#include "base/text.h"
#include "server/api/foreign.h"

#include <string.h>

/* ---- paths ---- */

/* The path of r that leads there; NULL when none does. */
static const char *leads(const Route *r, const char *path) {
    for (size_t i = 0; i <= COUNTOF(r->also); i++) {
        const char *own = i ? r->also[i - 1] : r->path;
        if (own && (r->parameter ? text_begins(path, own) : !strcmp(path, own))) return own;
    }
    return NULL;
}

bool route_is_open(const Route *r, const ApiModels *models) { return r->open || (r->of_models && models->open); }

const Route *route_find(const char *path) {
    for (const Route *r = routes; r->path; r++)
        if (leads(r, path)) return r;
    return NULL;
}

const char *route_parameter(const char *path) { return path + strlen(leads(route_find(path), path)); }

const char *route_nearest(const char *path) {
    const char *best = NULL;
    int nearest = 4;
    for (const Route *r = routes; r->path; r++) {
        if (r->path[1]) guess(path, strlen(path), r->path, &best, &nearest);
        for (size_t i = 0; i < COUNTOF(r->also) && r->also[i]; i++)
            guess(path, strlen(path), r->also[i], &best, &nearest);
    }
    return best;
}

/* ---- Markdown ---- */

static void print_bound(Buffer *b, double high, const char *limit) {
    if (limit)
        buffer_print(b, "`%s`", limit);
    else
        buffer_print(b, "%.16g", high);
}

static void print_range(Buffer *b, const char *what, double low, double high, const char *limit) {
    buffer_print(b, "%s %.16g to ", what, low);
    print_bound(b, high, limit);
}

/* " (1 to 16 bytes)", " (at least 1)", " (at most 16)", or nothing when anything goes. */
static void print_size(Buffer *b, const Type *t, const char *unit) {
    bool bound = t->limit || t->high > 0;
    if (!bound && t->low <= 0) return;
    if (t->low > 0) buffer_print(b, bound ? " (%.16g to " : " (at least %.16g", t->low);
    if (t->low <= 0) buffer_text(b, " (at most ");
    if (bound) print_bound(b, t->high, t->limit);
    buffer_print(b, "%s)", unit);
}

static void print_type(Buffer *b, const Type *t, bool inside) {
    switch (t->kind) {
    case TYPE_INTEGER:
    case TYPE_NUMBER:
        print_range(b, t->kind == TYPE_INTEGER ? "integer" : "number", t->low, t->high, t->limit);
        return;
    case TYPE_BOOLEAN:
        buffer_text(b, "boolean");
        return;
    case TYPE_STRING:
        buffer_text(b, "string");
        print_size(b, t, " bytes");
        return;
    case TYPE_ARRAY:
    case TYPE_MAP:
        buffer_text(b, t->kind == TYPE_ARRAY ? "array" : "object");
        print_size(b, t, "");
        buffer_text(b, " of ");
        print_type(b, t->of[0], true);
        return;
    case TYPE_ONE_OF:
        if (inside) buffer_text(b, "(");
        for (size_t i = 0; i < COUNTOF(t->of) && t->of[i]; i++) {
            if (i) buffer_text(b, " or ");
            print_type(b, t->of[i], true);
        }
        if (inside) buffer_text(b, ")");
        return;
    }
}

/* `1` or `2`, of "[1,2]". */
static void print_neutral(Buffer *b, const char *neutral) {
    cJSON *values = cJSON_Parse(neutral ? neutral : "[]");
    if (!values->child) buffer_text(b, neutral ? "only absent" : "any");
    for (const cJSON *v = values->child; v; v = v->next) {
        char *text = cJSON_PrintUnformatted(v);
        buffer_print(b, "%s`%s`", v == values->child ? "" : " or ", text);
        cJSON_free(text);
    }
    cJSON_Delete(values);
}

static void print_field_type(Buffer *b, const Field *f) {
    switch (f->kind) {
    case FIELD_INT:
    case FIELD_FLOAT:
        print_range(b, f->kind == FIELD_INT ? "integer" : "number", f->low, f->high, f->limit);
        return;
    case FIELD_SEED:
        print_range(b, "integer", 0, SEED_MAX, NULL);
        return;
    case FIELD_FOLDED:
        buffer_text(b, "integer -2^63 to 2^63 - 1");
        return;
    case FIELD_BOOL:
        buffer_text(b, "boolean");
        return;
    case FIELD_TEXT:
        buffer_text(b, "string");
        return;
    case FIELD_OBJECT:
        buffer_text(b, "object");
        return;
    case FIELD_OTHER:
        print_type(b, f->type, false);
        return;
    case FIELD_NEUTRAL:
        print_neutral(b, f->neutral);
        return;
    case FIELD_NONE:
        return;
    }
}

static void print_default(Buffer *b, const Field *f) {
    if (f->absent)
        buffer_text(b, f->absent);
    else if (f->kind == FIELD_BOOL)
        buffer_text(b, f->fallback != 0 ? "true" : "false");
    else
        buffer_print(b, "%.16g", f->fallback);
}

static void print_rows(Buffer *b, const FieldList *list, const char *outer) {
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        if (f->kind == FIELD_NONE) continue;
        buffer_print(b, "| `%s%s%s` | ", outer, *outer ? "." : "", f->name);
        print_field_type(b, f);
        buffer_text(b, " | ");
        print_default(b, f);
        buffer_print(b, " | %s |\n", f->help);
        if (f->kind == FIELD_OBJECT) print_rows(b, f->fields, f->name);
    }
}

static bool reads(const Route *r, const FieldList *list) {
    const FieldList *l = r->body;
    while (l && l != list) l = l->also;
    return l;
}

/* The first route that reads the fields of list: its table has their rows, those of other routes their names. */
static const Route *home(const FieldList *list) {
    const Route *r = routes;
    while (!reads(r, list)) r++;
    return r;
}

static void print_foreign(Buffer *b, const FieldList *list) {
    buffer_text(b, "\n### Fields of other servers\n\nWhere no table above has the field,");
    for (const Route *r = routes; r->path; r++)
        if (reads(r, list)) buffer_print(b, "%s `%s`", r == home(list) ? "" : ",", r->path);
    buffer_text(b, " take it at these values alone, which change nothing.\n\n"
                   "| field | value | whose |\n|---|---|---|\n");
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        buffer_print(b, "| `%s` | ", f->name);
        print_neutral(b, f->neutral);
        buffer_print(b, " | %s |\n", f->help);
    }
}

static void print_names(Buffer *b, const FieldList *body, const FieldList *list) {
    const char *separator = "";
    buffer_print(b, "\nAs in `%s`: ", home(list)->path);
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        if (fields_find(body, f->name) != f) continue;
        buffer_print(b, "%s`%s`", separator, f->name);
        separator = ", ";
    }
    buffer_text(b, ".\n");
}

static void print_body(Buffer *b, const Route *r) {
    buffer_print(b, "\n### POST %s\n", r->path);
    if (r->body->n) buffer_text(b, "\n| field | type and range | default | meaning |\n|---|---|---|---|\n");
    for (const FieldList *l = r->body; l && l != &foreign_fields; l = l->also)
        if (home(l) == r) print_rows(b, l, "");
    for (const FieldList *l = r->body; l && l != &foreign_fields; l = l->also)
        if (home(l) != r) print_names(b, r->body, l);
}

void schema_print_markdown(Buffer *out) {
    buffer_text(out, "| route | key | what it does |\n|---|---|---|\n");
    for (const Route *r = routes; r->path; r++) {
        const char *parameter = r->parameter ? r->parameter : "";
        buffer_print(out, "| `%s %s%s`", r->body ? "POST" : "GET", r->path, parameter);
        for (size_t i = 0; i < COUNTOF(r->also) && r->also[i]; i++)
            buffer_print(out, ", `%s%s`", r->also[i], parameter);
        buffer_print(out, " | %s | %s |\n", r->open ? "no" : "yes", r->help);
    }
    for (const Route *r = routes; r->path; r++)
        if (r->body) print_body(out, r);
    print_foreign(out, &foreign_fields);
}
