#include "base/json/json_look.h"

#include "base/utf8.h"

#include <string.h>

Shown show_text(const char *data, size_t n) {
    enum { LONGEST = 48 };
    Shown s;
    size_t clip = MIN(n, LONGEST);
    while (clip < n && clip > 0 && ((unsigned char)data[clip] & 0xC0) == 0x80) clip--;
    snprintf(s.text, sizeof s.text, "\"%.*s%s\"", (int)clip, data, clip < n ? "..." : "");
    text_make_printable(s.text);
    return s;
}

Shown show_json(const cJSON *v) {
    Shown s = {"missing"};
    if (cJSON_IsString(v)) return show_text(v->valuestring, strlen(v->valuestring));
    if (cJSON_IsNumber(v))
        snprintf(s.text, sizeof s.text, "%.17g", v->valuedouble);
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

static bool key_known(const char *known, const char *key) {
    size_t n = strlen(key);
    while (*known) {
        size_t length = strcspn(known, " ");
        if (length == n && memcmp(known, key, n) == 0) return true;
        known += length + (known[length] == ' ');
    }
    return false;
}

int json_check_keys(const cJSON *o, const char *where, const char *known, Err *err) {
    if (!cJSON_IsObject(o)) return err_set(err, "%s is %s, want an object", where, show_json(o).text);
    for (const cJSON *v = o->child; v; v = v->next) {
        if (!key_known(known, v->string))
            return err_set(err, "%s has the unknown key %s (known: %s)", where,
                           show_text(v->string, strlen(v->string)).text, known);
    }
    return 0;
}

int json_get_bool(const cJSON *o, const char *where, const char *name, int absent, bool *out, Err *err) {
    const cJSON *v = json_field(o, name);
    if (v ? !cJSON_IsBool(v) : absent < 0)
        return err_set(err, "%s.%s is %s, want true or false", where, name, show_json(v).text);
    *out = v ? cJSON_IsTrue(v) : absent;
    return 0;
}
