#include "server/api/fields.h"

#include "base/json_write.h"
#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/random.h"
#include "base/text.h"

#include <float.h>
#include <math.h>
#include <string.h>

int field_fail(const FieldReader *r, const cJSON *item, const char *what) {
    api_fail(r->error, 400, NULL, r->name, "%s must be %s, not %s", r->name, what, show_json(item).text);
    return -1;
}

static int range_fail(const FieldReader *r, const Field *f, const cJSON *item) {
    char what[96];
    snprintf(what, sizeof what, "%s between %.10g and %.10g", f->kind == FIELD_INT ? "an integer" : "a number", f->low,
             f->high);
    return field_fail(r, item, what);
}

int fields_leave_aside(Buffer *ignored, const char *name, ApiError *e) {
    enum { ENOUGH = 1024 };
    static const char more[] = ", ...";
    bool full = ignored->n > ENOUGH;
    if (full && !memcmp(ignored->data + ignored->n - strlen(more), more, strlen(more))) return 0;
    if (full) name = "...";
    if (ignored->n) buffer_text(ignored, ", ");
    for (; *name; name++) buffer_append(ignored, *name > ' ' && *name <= '~' && *name != ',' ? name : "?", 1);
    return ignored->failed ? api_no_memory(e) : 0;
}

static int read_neutral(const FieldReader *r, const Field *f, const cJSON *item) {
    if (!f->neutral) return 0;
    cJSON *values = cJSON_Parse(f->neutral);
    if (!values) return api_no_memory(r->error);
    const cJSON *v = values->child;
    while (v && !cJSON_Compare(v, item, true)) v = v->next;
    cJSON_Delete(values);
    if (v) return 0;
    if (r->ignored) return fields_leave_aside(r->ignored, r->name, r->error);
    bool some = strcmp(f->neutral, "[]") != 0;
    return api_fail(r->error, 400, NULL, r->name, "%s is not supported: it may be absent%s%.*s (%s)", r->name,
                    some ? " or " : "", some ? (int)strlen(f->neutral) - 2 : 0, f->neutral + 1, f->help);
}

static int unknown(const char *name, Buffer *ignored, ApiError *e) {
    if (ignored) return fields_leave_aside(ignored, name, e);
    return api_fail(e, 400, NULL, name, "unknown field \"%s\"", name);
}

int fields_check_members(const cJSON *object, const char *name, const char *const *known, Buffer *ignored,
                         ApiError *e) {
    const cJSON *member;
    cJSON_ArrayForEach(member, object) {
        char whole[96];
        if (!member->string || cJSON_IsNull(member) || text_is_in(member->string, known)) continue;
        snprintf(whole, sizeof whole, "%.48s.%.40s", name, member->string);
        if (unknown(whole, ignored, e)) return -1;
    }
    return 0;
}

static int read_rows(const FieldReader *outer, const cJSON *object, const FieldList *list);

static int read_field(const FieldReader *r, const Field *f, const cJSON *item) {
    char *out = (char *)r->out + f->offset;
    int64_t integer;
    switch (f->kind) {
    case FIELD_INT:
        if (!json_integer(item, (int64_t)f->low, (int64_t)f->high, &integer)) return range_fail(r, f, item);
        *(int *)out = (int)integer;
        return 0;
    case FIELD_FLOAT:
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= f->low && item->valuedouble <= f->high))
            return range_fail(r, f, item);
        *(float *)out = (float)item->valuedouble;
        /* what rounds to 0 is none */
        if (*(float *)out == 0 && item->valuedouble != 0) *(float *)out = copysignf(FLT_MIN, (float)item->valuedouble);
        return 0;
    case FIELD_BOOL:
        if (!cJSON_IsBool(item)) return field_fail(r, item, "true or false");
        *(bool *)out = cJSON_IsTrue(item);
        return 0;
    case FIELD_SEED:
        if (!json_integer(item, 0, SEED_MAX, &integer))
            return field_fail(r, item, "an integer between 0 and 9007199254740991");
        *(OptionalSeed *)out = (OptionalSeed){.given = true, .value = (uint64_t)integer};
        return 0;
    case FIELD_FOLDED:
        if (!json_int64(item, &integer)) return field_fail(r, item, "an integer of 64 bits with a sign");
        *(OptionalSeed *)out = (OptionalSeed){.given = integer != -1, .value = seed_fold(integer)};
        return 0;
    case FIELD_TEXT:
        if (!cJSON_IsString(item)) return field_fail(r, item, "a string");
        *(const char **)out = item->valuestring;
        return 0;
    case FIELD_OBJECT:
        if (!cJSON_IsObject(item)) return field_fail(r, item, "an object");
        *(bool *)out = true;
        return read_rows(r, item, f->fields);
    case FIELD_OTHER:
        if (f->read) return f->read(r, item);
        *(const cJSON **)out = item;
        return 0;
    case FIELD_NEUTRAL:
        return read_neutral(r, f, item);
    case FIELD_NONE: /* fields_find does not return it */
        break;
    }
    return 0;
}

const Field *fields_find(const FieldList *list, const char *name) {
    for (; list; list = list->also)
        for (const Field *f = list->rows; f < list->rows + list->n; f++)
            if (!strcmp(f->name, name)) return f->kind == FIELD_NONE ? NULL : f;
    return NULL;
}

/* A field of an object inside the body is called "object.field". */
static int read_rows(const FieldReader *outer, const cJSON *object, const FieldList *list) {
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        char name[128];
        snprintf(name, sizeof name, "%s%s%.100s", outer->name ? outer->name : "", outer->name ? "." : "", item->string);
        const Field *f = fields_find(list, item->string);
        FieldReader r = *outer;
        r.name = name;
        if (cJSON_IsNull(item)) continue;
        if (f ? read_field(&r, f, item) : unknown(r.name, r.ignored, r.error)) return -1;
    }
    return 0;
}

/* `absent` is "`name`" then. */
const Field *field_same(const FieldList *list, const Field *f) {
    const char *text = f->absent;
    char name[64];
    size_t n = text ? strlen(text) : 0;
    if (n < 3 || n >= sizeof name || text[0] != '`' || text[n - 1] != '`') return NULL;
    snprintf(name, sizeof name, "%.*s", (int)n - 2, text + 1);
    return fields_find(list, name);
}

bool field_put_default(Buffer *b, const char *key, const FieldList *list, const Field *f) {
    if (f->absent) {
        const Field *same = field_same(list, f);
        if (same) return field_put_default(b, key, list, same);
        bool value = f->absent[strspn(f->absent, "-0123456789.")] == '\0' || !strcmp(f->absent, "false");
        if (value) json_put_raw(b, key, f->absent, strlen(f->absent));
        return value;
    }
    if (f->kind == FIELD_BOOL)
        json_put_bool(b, key, f->fallback != 0);
    else
        json_put_double(b, key, f->fallback);
    return true;
}

static void take_fallbacks(char *out, const FieldList *list) {
    if (list->also) take_fallbacks(out, list->also);
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        if (f->kind == FIELD_INT) *(int *)(out + f->offset) = (int)f->fallback;
        if (f->kind == FIELD_FLOAT) *(float *)(out + f->offset) = (float)f->fallback;
        if (f->kind == FIELD_BOOL) *(bool *)(out + f->offset) = f->fallback != 0;
        if (f->kind == FIELD_OBJECT) take_fallbacks(out, f->fields);
    }
}

static bool is_there(const cJSON *object, const char *name) {
    const cJSON *item = json_field(object, name);
    return item && !cJSON_IsNull(item);
}

static int check_either(const FieldReader *r, const cJSON *object, const char *const either[3]) {
    const char *last = either[0];
    int n = 0;
    for (int i = 0; i < 3 && either[i]; i++) {
        if (!is_there(object, either[i])) continue;
        last = either[i];
        n++;
    }
    if (n == 1) return 0;
    return api_fail(r->error, 400, NULL, last, "give either %s or %s%s%s", either[0], either[1],
                    either[2] ? " or " : "", either[2] ? either[2] : "");
}

int fields_read(const FieldReader *r, const cJSON *object, const FieldList *list) {
    take_fallbacks(r->out, list);
    if (read_rows(r, object, list)) return -1;
    return list->either[0] ? check_either(r, object, list->either) : 0;
}

cJSON *fields_parse_body(const char *body, size_t n, int max_depth, int max_values, ApiError *e) {
    Err err;
    cJSON *root = json_parse(body, n, max_depth, (size_t)max_values, &err);
    if (root && cJSON_IsObject(root)) return root;
    if (root)
        api_fail(e, 400, NULL, NULL, "the body must be a JSON object");
    else
        api_fail(e, 400, "invalid_json", NULL, "%s", err.msg);
    cJSON_Delete(root);
    return NULL;
}
