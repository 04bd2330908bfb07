#include "base/json/json.h"

#include "base/err.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A key of an object that is still open: its unescaped bytes lie in Scan.text at `at`. */
typedef struct Key {
    size_t at, n;
} Key;

/* Where an integer stands of which a double may lose digits. */
typedef struct LongInteger {
    size_t value; /* its number among the values, in the order of the text, from 1 */
    size_t at, n;
} LongInteger;

typedef struct Scan {
    const unsigned char *start, *p, *end;
    int depth, max_depth;
    size_t values, max_values;
    Key *keys; /* of all open objects, innermost last */
    size_t n_keys, keys_capacity;
    char *text; /* unescaped keys; never longer than the input */
    size_t text_used;
    LongInteger *longs; /* [n_longs] */
    size_t n_longs, longs_capacity;
    Err *err;
} Scan;

static int fail(Scan *s, const char *what) {
    return err_set(s->err, "not valid JSON: %s at byte %zu", what, (size_t)(s->p - s->start));
}

static int fail_limit(Scan *s, const char *what, size_t limit) {
    return err_set(s->err, "not valid JSON: %s %zu at byte %zu", what, limit, (size_t)(s->p - s->start));
}

static int peek(const Scan *s) { return s->p < s->end ? *s->p : -1; }

static void skip_space(Scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) s->p++;
}

static bool accept(Scan *s, char c) {
    if (peek(s) != c) return false;
    s->p++;
    return true;
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

/* Four hexadecimal digits; -1 when they are not. */
static int hex4(Scan *s) {
    int v = 0;
    for (int i = 0; i < 4; i++, s->p++) {
        int c = peek(s), letter = c | 32;
        if (is_digit(c))
            v = v * 16 + c - '0';
        else if (c > 0 && letter >= 'a' && letter <= 'f')
            v = v * 16 + letter - 'a' + 10;
        else
            return -1;
    }
    return v;
}

/* What follows \u; the code point in UTF-8 goes to out[4]. Returns its length, 0 on failure. */
static size_t scan_unicode_escape(Scan *s, char *out) {
    int c = hex4(s);
    if (c < 0) return fail(s, "a \\u escape without four hexadecimal digits"), 0;
    if (c == 0) return fail(s, "a NUL character"), 0;
    if (c >= 0xDC00 && c <= 0xDFFF) return fail(s, "a lone surrogate"), 0;
    if (c < 0xD800 || c > 0xDBFF) return utf8_put((uint32_t)c, out);
    int low = accept(s, '\\') && accept(s, 'u') ? hex4(s) : -1;
    if (low < 0xDC00 || low > 0xDFFF) return fail(s, "a lone surrogate"), 0;
    return utf8_put(0x10000 + ((uint32_t)(c - 0xD800) << 10) + (uint32_t)(low - 0xDC00), out);
}

/* One character of a string, escape or not, into out[4]. Returns its length, 0 on failure. */
static size_t scan_character(Scan *s, char *out) {
    if (!accept(s, '\\')) {
        int c = peek(s);
        if (c < 0) return fail(s, "a string without end"), 0;
        if (c < 0x20) return fail(s, "a control character in a string"), 0;
        size_t n = utf8_char_length((const char *)s->p, (size_t)(s->end - s->p));
        if (n == 0) return fail(s, "invalid UTF-8"), 0;
        memcpy(out, s->p, n);
        s->p += n;
        return n;
    }
    if (accept(s, 'u')) return scan_unicode_escape(s, out);
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = peek(s) > 0 ? strchr(from, peek(s)) : NULL;
    if (!at) return fail(s, "an unknown escape"), 0;
    s->p++;
    *out = to[at - from];
    return 1;
}

/* From the opening quote to behind the closing one. `key`, if not NULL, gets the unescaped bytes. */
static int scan_string(Scan *s, Key *key) {
    char c[4];
    s->p++;
    if (key) *key = (Key){.at = s->text_used};
    while (!accept(s, '"')) {
        size_t n = scan_character(s, c);
        if (n == 0) return -1;
        if (!key) continue;
        memcpy(s->text + s->text_used, c, n);
        s->text_used += n;
        key->n += n;
    }
    return 0;
}

static int scan_digits(Scan *s) {
    if (!is_digit(peek(s))) return fail(s, "a number without digits");
    while (is_digit(peek(s))) s->p++;
    return 0;
}

static int note_integer(Scan *s, const unsigned char *first) {
    enum { EXACT_DIGITS = 15 };
    size_t n = (size_t)(s->p - first);
    if (n <= EXACT_DIGITS) return 0;
    if (s->n_longs == s->longs_capacity) {
        size_t capacity = MAX(4, 2 * s->longs_capacity);
        LongInteger *longs = try_realloc(s->longs, capacity * sizeof *longs);
        if (!longs) return err_set(s->err, "no memory to check the JSON");
        s->longs = longs;
        s->longs_capacity = capacity;
    }
    s->longs[s->n_longs++] = (LongInteger){.value = s->values, .at = (size_t)(first - s->start), .n = n};
    return 0;
}

static int scan_number(Scan *s) {
    const unsigned char *first = s->p;
    char copy[64];
    accept(s, '-');
    if (accept(s, '0')) {
        if (is_digit(peek(s))) return fail(s, "a number with a leading zero");
    } else if (scan_digits(s)) {
        return -1;
    }
    int next = peek(s);
    if (next != '.' && next != 'e' && next != 'E' && note_integer(s, first)) return -1;
    if (accept(s, '.') && scan_digits(s)) return -1;
    if (accept(s, 'e') || accept(s, 'E')) {
        if (!accept(s, '+')) accept(s, '-');
        if (scan_digits(s)) return -1;
    }
    size_t n = (size_t)(s->p - first);
    if (n >= sizeof copy) return fail(s, "a number of more than 63 characters");
    memcpy(copy, first, n);
    copy[n] = 0;
    return isfinite(strtod(copy, NULL)) ? 0 : fail(s, "a number out of range");
}

static int scan_word(Scan *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n)) return fail(s, "an unknown word");
    s->p += n;
    return 0;
}

static int compare_keys(const void *a, const void *b, void *text) {
    const Key *x = a, *y = b;
    int c = memcmp((char *)text + x->at, (char *)text + y->at, MIN(x->n, y->n));
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

static int check_unique(Scan *s, size_t first) {
    if (s->n_keys - first < 2) return 0;
    qsort_r(s->keys + first, s->n_keys - first, sizeof *s->keys, compare_keys, s->text);
    for (size_t i = first + 1; i < s->n_keys; i++) {
        const Key *k = &s->keys[i];
        if (compare_keys(k - 1, k, s->text)) continue;
        return err_set(s->err, "not valid JSON: the key \"%.*s\" occurs twice in one object", (int)MIN(k->n, 200),
                       s->text + k->at);
    }
    return 0;
}

static int scan_value(Scan *s);

static int scan_member(Scan *s) {
    if (s->n_keys == s->keys_capacity) {
        size_t capacity = MAX(64, 2 * s->keys_capacity);
        Key *keys = try_realloc(s->keys, capacity * sizeof *keys);
        if (!keys) return err_set(s->err, "no memory to check the JSON");
        s->keys = keys;
        s->keys_capacity = capacity;
    }
    if (peek(s) != '"') return fail(s, "no key where one must be");
    if (scan_string(s, &s->keys[s->n_keys++])) return -1;
    skip_space(s);
    if (!accept(s, ':')) return fail(s, "no colon behind a key");
    skip_space(s);
    return scan_value(s);
}

/* From the opening bracket to behind the closing one. */
static int scan_container(Scan *s, char close) {
    bool object = close == '}';
    size_t first_key = s->n_keys;
    if (++s->depth > s->max_depth) return fail_limit(s, "nesting deeper than", (size_t)s->max_depth);
    s->p++;
    skip_space(s);
    bool more = !accept(s, close);
    while (more) {
        if (object ? scan_member(s) : scan_value(s)) return -1;
        skip_space(s);
        if (accept(s, close)) break;
        if (!accept(s, ',')) return fail(s, "no comma or closing bracket where one must be");
        skip_space(s);
    }
    if (object && check_unique(s, first_key)) return -1;
    s->n_keys = first_key;
    s->depth--;
    return 0;
}

static int scan_value(Scan *s) {
    if (++s->values > s->max_values) return fail_limit(s, "more values than", s->max_values);
    switch (peek(s)) {
    case '{':
        return scan_container(s, '}');
    case '[':
        return scan_container(s, ']');
    case '"':
        return scan_string(s, NULL);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    case -1:
        return fail(s, "unexpected end");
    default:
        break;
    }
    if (peek(s) == '-' || is_digit(peek(s))) return scan_number(s);
    return fail(s, "no value where one must be");
}

/* cJSON returns NULL where memory runs out. */
__attribute__((constructor)) static void hook_allocations(void) {
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = try_malloc, .free_fn = free});
}

/* s->longs is the caller's. */
static int scan_text(Scan *s) {
    size_t n = (size_t)(s->end - s->start);
    s->text = try_malloc(n + 1);
    if (!s->text) return err_set(s->err, "no memory to check the JSON");
    skip_space(s);
    int rc = scan_value(s);
    if (rc == 0) {
        skip_space(s);
        if (s->p < s->end) rc = fail(s, "something behind the end");
    }
    free(s->text);
    free(s->keys);
    return rc;
}

static Scan scan_of(const char *text, size_t n, int max_depth, size_t max_values, Err *err) {
    const unsigned char *start = (const unsigned char *)text;
    return (Scan){
        .start = start, .p = start, .end = start + n, .max_depth = max_depth, .max_values = max_values, .err = err};
}

int json_check(const char *text, size_t n, int max_depth, size_t max_values, Err *err) {
    Scan s = scan_of(text, n, max_depth, max_values, err);
    int rc = scan_text(&s);
    free(s.longs);
    return rc;
}

/* cJSON's tree holds the values in the order of the text. `next` is the first of those not yet passed. */
static bool keep_digits(const Scan *s, cJSON *item, size_t *value, size_t *next) {
    for (; item && *next < s->n_longs; item = item->next) {
        const LongInteger *l = &s->longs[*next];
        if (++*value == l->value) {
            item->valuestring = try_calloc(1, l->n + 1);
            if (!item->valuestring) return false;
            memcpy(item->valuestring, s->start + l->at, l->n);
            ++*next;
        }
        if (!keep_digits(s, item->child, value, next)) return false;
    }
    return true;
}

cJSON *json_parse(const char *text, size_t n, int max_depth, size_t max_values, Err *err) {
    Scan s = scan_of(text, n, max_depth, max_values, err);
    cJSON *root = NULL;
    size_t value = 0, next = 0;
    if (scan_text(&s) == 0) {
        root = cJSON_ParseWithLength(text, n);
        if (!root || !keep_digits(&s, root, &value, &next)) { /* whatever json_check accepts cJSON accepts */
            cJSON_Delete(root);
            root = NULL;
            err_set(err, "no memory for the JSON");
        }
    }
    free(s.longs);
    return root;
}

cJSON *json_load(const char *path, size_t max_bytes, int max_depth, size_t max_values, Err *err) {
    Err why;
    size_t n;
    char *text = file_read(path, max_bytes, &n, err);
    if (!text) return NULL;
    cJSON *root = json_parse(text, n, max_depth, max_values, &why);
    free(text);
    if (!root) err_set(err, "%s: %s", path, why.msg);
    return root;
}

bool json_integer(const cJSON *item, int64_t low, int64_t high, int64_t *out) {
    if (!cJSON_IsNumber(item)) return false;
    double d = item->valuedouble;
    if (!(d >= (double)low && d <= (double)high) || d != floor(d)) return false;
    *out = (int64_t)d;
    return true;
}

bool json_int64(const cJSON *item, int64_t *out) {
    if (!cJSON_IsNumber(item)) return false;
    if (!item->valuestring) return json_integer(item, 1 - JSON_INTEGER_MAX, JSON_INTEGER_MAX - 1, out);
    errno = 0;
    *out = strtoll(item->valuestring, NULL, 10);
    return errno == 0;
}

const char *json_skip(const char *at) {
    int depth = 0;
    do {
        if (*at == '"')
            for (at++; *at != '"'; at++) at += *at == '\\';
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (depth > 0);
    return at;
}
