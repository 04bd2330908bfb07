#include "base/json/json_reader.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void json_reader_fail(JsonReader *r, const char *fmt, ...) {
    if (r->failed) return;
    r->failed = true;
    if (!r->err) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->err->msg, sizeof r->err->msg, fmt, ap);
    va_end(ap);
}

/* "<path><key> is <value>, must be <wanted>"; deletes the item. */
static void fail_value(JsonReader *r, const char *key, cJSON *item, const char *wanted) {
    char *text = cJSON_PrintUnformatted(item);
    json_reader_fail(r, "%s%s is %.80s, must be %s", r->path, key, text ? text : "?", wanted);
    cJSON_free(text);
    cJSON_Delete(item);
}

cJSON *json_take(JsonReader *r, const char *key) {
    if (r->failed) return NULL;
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(r->object, key);
    if (!item || !r->foreign || !cJSON_IsNull(item)) return item;
    cJSON_Delete(item);
    return NULL;
}

static cJSON *take(JsonReader *r, const char *key, bool required) {
    cJSON *item = json_take(r, key);
    if (!item && required) json_reader_fail(r, "%s%s is missing", r->path, key);
    return item;
}

static int take_int(JsonReader *r, const char *key, int low, int fallback, const char *wanted) {
    int64_t v = fallback == JSON_REQUIRED ? 1 : fallback;
    cJSON *item = take(r, key, fallback == JSON_REQUIRED);
    if (!item) return (int)v;
    if (json_integer(item, low, INT_MAX, &v))
        cJSON_Delete(item);
    else
        fail_value(r, key, item, wanted);
    return (int)v;
}

int json_take_int(JsonReader *r, const char *key, int fallback) {
    return take_int(r, key, -INT_MAX, fallback, "an integer");
}

int json_take_positive(JsonReader *r, const char *key, int fallback) {
    return take_int(r, key, 1, fallback, "a positive integer");
}

double json_take_number(JsonReader *r, const char *key, double fallback) {
    cJSON *item = take(r, key, false);
    if (!item) return fallback;
    double v = item->valuedouble;
    if (cJSON_IsNumber(item))
        cJSON_Delete(item);
    else
        fail_value(r, key, item, "a number");
    return v;
}

bool json_take_bool(JsonReader *r, const char *key, bool fallback) {
    cJSON *item = take(r, key, false);
    if (!item) return fallback;
    bool v = cJSON_IsTrue(item);
    if (cJSON_IsBool(item))
        cJSON_Delete(item);
    else
        fail_value(r, key, item, "true or false");
    return v;
}

int json_take_name(JsonReader *r, const char *key, const char *const *names, int n, int fallback) {
    cJSON *item = take(r, key, fallback == JSON_REQUIRED);
    if (!item) return fallback == JSON_REQUIRED ? 0 : fallback;
    char wanted[200] = "";
    for (int i = 0; i < n; i++) {
        if (cJSON_IsString(item) && !strcmp(item->valuestring, names[i])) {
            cJSON_Delete(item);
            return i;
        }
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", names[i]);
    }
    fail_value(r, key, item, wanted);
    return 0;
}

void json_take_string(JsonReader *r, const char *key, char *out, size_t size, const char *fallback) {
    snprintf(out, size, "%s", fallback);
    cJSON *item = take(r, key, false);
    if (!item) return;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a string of at most %zu bytes", size - 1);
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= size) {
        fail_value(r, key, item, wanted);
        return;
    }
    snprintf(out, size, "%s", item->valuestring);
    cJSON_Delete(item);
}

bool json_reader_enter(JsonReader *r, JsonReader *sub, const char *key, const char *path) {
    cJSON *item = json_take(r, key);
    *sub = (JsonReader){.object = item, .path = path, .foreign = r->foreign, .err = r->err};
    if (!item) return false;
    if (cJSON_IsObject(item)) return true;
    fail_value(r, key, item, "an object");
    return false;
}

void json_reader_leave(JsonReader *r, JsonReader *sub) {
    json_reader_end(sub);
    cJSON_Delete(sub->object);
    r->failed |= sub->failed;
}

void json_reader_end(JsonReader *r) {
    if (!r->foreign && r->object->child) json_reader_fail(r, "unknown key %s%.80s", r->path, r->object->child->string);
}
