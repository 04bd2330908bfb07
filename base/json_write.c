#include "base/json_write.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void append_escaped(Buffer *b, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        buffer_print(b, "\\%c", to[at - from]);
    else if (c < 0x20)
        buffer_print(b, "\\u%04x", c);
    else
        buffer_append(b, &c, 1);
}

/* Bytes that text[0..n) begins with and that stand for themselves. */
static size_t plain(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && (signed char)text[i] >= ' ' && text[i] != '"' && text[i] != '\\') i++;
    return i;
}

static void append_string(Buffer *b, const char *text, size_t n) {
    buffer_append(b, "\"", 1);
    for (size_t i = 0, length; i < n; i += length) {
        length = plain(text + i, n - i);
        buffer_append(b, text + i, length);
        if (length > 0) continue;
        Utf8 kind = utf8_next(text + i, n - i, &length);
        if (kind != UTF8_VALID)
            buffer_text(b, UTF8_REPLACEMENT);
        else if (length == 1)
            append_escaped(b, (unsigned char)text[i]);
        else
            buffer_append(b, text + i, length);
    }
    buffer_append(b, "\"", 1);
}

enum { FLOAT_TEXT = 32 };

/* Whether that many digits are enough. */
static bool float_text(char text[FLOAT_TEXT], int digits, float f) {
    snprintf(text, FLOAT_TEXT, "%.*g", digits, (double)f);
    return strtof(text, NULL) == f;
}

/* The fewest digits that read back; %g drops trailing zeros, so six give any shorter form too. Half of all numbers need
 * nine, most of the others eight. */
static void append_float(Buffer *b, float f) {
    char text[FLOAT_TEXT], shorter[FLOAT_TEXT];
    if (isnan(f)) {
        buffer_text(b, "null");
        return;
    }
    if (isinf(f)) f = f < 0 ? -9999 : 9999;
    if (!float_text(text, 8, f))
        float_text(text, 9, f);
    else
        for (int digits = 7; digits >= 6 && float_text(shorter, digits, f); digits--)
            memcpy(text, shorter, sizeof text);
    buffer_text(b, text);
    if (!strpbrk(text, ".e")) buffer_text(b, ".0");
}

static void separate(Buffer *b) {
    bool comma = b->comma;
    if (comma) buffer_text(b, ",");
    if (b->layout == JSON_LINES)
        buffer_text(b, "\n  ");
    else if (comma && b->layout == JSON_SPACED)
        buffer_text(b, " ");
}

void json_key(Buffer *b, const char *text, size_t n) {
    separate(b);
    append_string(b, text, n);
    buffer_text(b, b->layout == JSON_DENSE ? ":" : ": ");
}

/* What stands in front of a value. */
static void begin(Buffer *b, const char *key) {
    if (key)
        json_key(b, key, strlen(key));
    else
        separate(b);
}

void json_open(Buffer *b, const char *key, char bracket) {
    begin(b, key);
    buffer_append(b, &bracket, 1);
}

void json_close(Buffer *b, char bracket) {
    buffer_append(b, &bracket, 1);
    b->comma = true;
}

void json_put_raw(Buffer *b, const char *key, const char *json, size_t n) {
    if (n == 0) return;
    begin(b, key);
    buffer_append(b, json, n);
    b->comma = true;
}

static void put_word(Buffer *b, const char *key, const char *word) { json_put_raw(b, key, word, strlen(word)); }

void json_put_null(Buffer *b, const char *key) { put_word(b, key, "null"); }

void json_put_bool(Buffer *b, const char *key, bool value) { put_word(b, key, value ? "true" : "false"); }

void json_put_int(Buffer *b, const char *key, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    put_word(b, key, digits);
}

void json_put_uint(Buffer *b, const char *key, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    put_word(b, key, digits);
}

void json_put_rounded(Buffer *b, const char *key, double value, int digits) {
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, value);
    put_word(b, key, isfinite(value) ? text : "null");
}

void json_put_double(Buffer *b, const char *key, double value) {
    char text[32];
    int digits = 15;
    do snprintf(text, sizeof text, "%.*g", digits, value);
    while (isfinite(value) && strtod(text, NULL) != value && digits++ < 17);
    put_word(b, key, isfinite(value) ? text : "null");
}

void json_put_float(Buffer *b, const char *key, float value) {
    begin(b, key);
    append_float(b, value);
    b->comma = true;
}

void json_put_floats(Buffer *b, const char *key, const float *x, int n) {
    json_open(b, key, '[');
    for (int i = 0; i < n; i++) json_put_float(b, NULL, x[i]);
    json_close(b, ']');
}

void json_put_ints(Buffer *b, const char *key, const int *x, int n) {
    json_open(b, key, '[');
    for (int i = 0; i < n; i++) json_put_int(b, NULL, x[i]);
    json_close(b, ']');
}

void json_put_bytes(Buffer *b, const char *key, const char *text, size_t n) {
    begin(b, key);
    append_string(b, text, n);
    b->comma = true;
}

void json_put_text(Buffer *b, const char *key, const char *text) {
    if (text)
        json_put_bytes(b, key, text, strlen(text));
    else
        json_put_null(b, key);
}

void json_put_some(Buffer *b, const char *key, const char *text) { json_put_text(b, key, text && *text ? text : NULL); }

void json_put_item(Buffer *b, const char *key, const cJSON *item) {
    bool object = cJSON_IsObject(item);
    if (cJSON_IsString(item)) {
        json_put_text(b, key, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        if (item->valuestring) /* its digits, where no double has them */
            put_word(b, key, item->valuestring);
        else
            json_put_double(b, key, item->valuedouble);
    } else if (object || cJSON_IsArray(item)) {
        json_open(b, key, object ? '{' : '[');
        for (const cJSON *v = item->child; v; v = v->next) json_put_item(b, object ? v->string : NULL, v);
        json_close(b, object ? '}' : ']');
    } else {
        put_word(b, key, cJSON_IsTrue(item) ? "true" : cJSON_IsFalse(item) ? "false" : "null");
    }
}

char *json_try_text(Buffer *b) {
    buffer_append(b, "", 1);
    if (b->failed) buffer_free(b);
    char *data = b->data;
    *b = (Buffer){0};
    return data;
}

char *json_end_text(Buffer *b) {
    size_t n = b->n;
    char *text = json_try_text(b);
    if (!text) memory_exhausted(n);
    return text;
}

int json_end_line(Buffer *b, FILE *f) {
    json_close(b, '}');
    buffer_text(b, "\n");
    size_t n = b->n;
    char *line = json_end_text(b);
    int rc = fwrite(line, 1, n, f) < n || fflush(f) ? -1 : 0;
    free(line);
    return rc;
}
