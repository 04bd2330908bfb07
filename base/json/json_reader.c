#include "base/json/json_reader.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- items ---- */

Shown show_text(const char *data, size_t n) {
    enum { LONGEST = 48 };
    Shown s;
    size_t clip = MIN(n, LONGEST);
    while (clip < n && clip > 0 && ((unsigned char)data[clip] & 0xC0) == 0x80) clip--;
    snprintf(s.text, sizeof s.text, "\"%.*s%s\"", (int)clip, data, clip < n ? "..." : "");
    text_make_printable(s.text);
    return s;
}

static void show_number(Shown *s, double value) {
    snprintf(s->text, sizeof s->text, "%.15g", value);
    if (strtod(s->text, NULL) != value) snprintf(s->text, sizeof s->text, "%.17g", value);
}

Shown show_json(const cJSON *v) {
    Shown s = {"missing"};
    if (cJSON_IsString(v)) return show_text(v->valuestring, strlen(v->valuestring));
    if (cJSON_IsNumber(v))
        show_number(&s, v->valuedouble);
    else if (v)
        snprintf(s.text, sizeof s.text, "%s",
                 cJSON_IsNull(v)     ? "null"
                 : cJSON_IsTrue(v)   ? "true"
                 : cJSON_IsFalse(v)  ? "false"
                 : cJSON_IsObject(v) ? "an object"
                                     : "an array");
    return s;
}

const cJSON *json_field(const cJSON *o, const char *name) { return cJSON_GetObjectItemCaseSensitive(o, name); }

bool json_is_text(const cJSON *v, const char *text) { return cJSON_IsString(v) && strcmp(v->valuestring, text) == 0; }

bool json_is_null(const cJSON *v) { return !v || cJSON_IsNull(v); }

/* ---- objects ---- */

enum { TAKEN = 1 << 16 }; /* in an item's type, of which cJSON has the lower bits */

void json_reader_fail(JsonReader *r, const char *fmt, ...) {
    if (r->failed) return;
    r->failed = true;
    if (!r->err) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->err->msg, sizeof r->err->msg, fmt, ap);
    va_end(ap);
}

static const char *dot(const JsonReader *r) { return *r->path ? "." : ""; }

static void fail_value(JsonReader *r, const char *key, const cJSON *item, const char *wanted) {
    json_reader_fail(r, "%s%s%s is %s, must be %s", r->path, dot(r), key, show_json(item).text, wanted);
}

static bool is_among(const char *known, const char *key) {
    size_t n = strlen(key);
    while (*known) {
        size_t length = strcspn(known, " ");
        if (length == n && memcmp(known, key, n) == 0) return true;
        known += length + (known[length] == ' ');
    }
    return false;
}

bool json_reader_knows(JsonReader *r, const char *known) {
    const char *where = *r->path ? r->path : "the file";
    if (!cJSON_IsObject(r->object))
        json_reader_fail(r, "%s is %s, must be an object", where, show_json(r->object).text);
    for (const cJSON *v = r->failed ? NULL : r->object->child; v; v = v->next)
        if (!is_among(known, v->string))
            json_reader_fail(r, "%s has the unknown key %s (known: %s)", where,
                             show_text(v->string, strlen(v->string)).text, known);
    return !r->failed;
}

const cJSON *json_take(JsonReader *r, const char *key) {
    cJSON *item = r->failed ? NULL : cJSON_GetObjectItemCaseSensitive(r->object, key);
    if (item) item->type |= TAKEN;
    return r->foreign && cJSON_IsNull(item) ? NULL : item;
}

bool json_is_taken(const cJSON *item) { return item->type & TAKEN; }

static const cJSON *take(JsonReader *r, const char *key, bool required) {
    const cJSON *item = json_take(r, key);
    if (!item && required) json_reader_fail(r, "%s%s%s is missing", r->path, dot(r), key);
    return item;
}

static int take_int(JsonReader *r, const char *key, int low, int fallback, const char *wanted) {
    int64_t v = fallback == JSON_REQUIRED ? 1 : fallback;
    const cJSON *item = take(r, key, fallback == JSON_REQUIRED);
    if (item && !json_integer(item, low, INT_MAX, &v)) fail_value(r, key, item, wanted);
    return (int)v;
}

int json_take_int(JsonReader *r, const char *key, int fallback) {
    return take_int(r, key, -INT_MAX, fallback, "an integer");
}

int json_take_positive(JsonReader *r, const char *key, int fallback) {
    return take_int(r, key, 1, fallback, "a positive integer");
}

double json_take_number(JsonReader *r, const char *key, double fallback) {
    const cJSON *item = json_take(r, key);
    if (!item) return fallback;
    if (!cJSON_IsNumber(item)) fail_value(r, key, item, "a number");
    return item->valuedouble;
}

bool json_take_bool(JsonReader *r, const char *key, int fallback) {
    const char *wanted = "true or false";
    const cJSON *item = take(r, key, fallback == JSON_REQUIRED);
    if (!item) return fallback == true;
    if (!cJSON_IsBool(item)) fail_value(r, key, item, wanted);
    return cJSON_IsTrue(item);
}

int json_take_name(JsonReader *r, const char *key, const char *const *names, int n, int fallback) {
    char wanted[200] = "";
    for (int i = 0; i < n; i++) {
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
    }
    const cJSON *item = take(r, key, fallback == JSON_REQUIRED);
    if (!item) return fallback == JSON_REQUIRED ? 0 : fallback;
    for (int i = 0; i < n; i++)
        if (json_is_text(item, names[i])) return i;
    fail_value(r, key, item, wanted);
    return 0;
}

void json_take_string(JsonReader *r, const char *key, char *out, size_t size, const char *fallback) {
    const cJSON *item = json_take(r, key);
    const char *text = item ? cJSON_GetStringValue(item) : fallback;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a string of at most %zu bytes", size - 1);
    if (!text || strlen(text) >= size) {
        fail_value(r, key, item, wanted);
        text = fallback;
    }
    snprintf(out, size, "%s", text);
}

bool json_reader_enter(JsonReader *r, JsonReader *sub, const char *key) {
    const cJSON *item = json_take(r, key);
    *sub = (JsonReader){.object = item, .path = key, .foreign = r->foreign, .err = r->err};
    if (item && !cJSON_IsObject(item)) fail_value(r, key, item, "an object");
    return cJSON_IsObject(item);
}

void json_reader_leave(JsonReader *r, JsonReader *sub) {
    json_reader_end(sub);
    r->failed |= sub->failed;
}

void json_reader_end(JsonReader *r) {
    for (const cJSON *v = r->foreign ? NULL : r->object->child; v; v = v->next)
        if (!json_is_taken(v)) json_reader_fail(r, "unknown key %s%s%.80s", r->path, dot(r), v->string);
}
