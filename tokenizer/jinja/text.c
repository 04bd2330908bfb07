#include "tokenizer/jinja/text.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <unistr.h>

/* ---- building ---- */

static void reserve(JinjaWork *w, Builder *b, size_t n) {
    work_step(w, n);
    if (b->n + n <= b->capacity) return;
    size_t capacity = MAX(2 * b->capacity, MAX(b->n + n, 64));
    char *data = work_take(w, 2 * capacity), *marks = data + capacity;
    if (b->n) memcpy(data, b->data, b->n), memcpy(marks, b->marks, b->n);
    *b = (Builder){data, marks, b->n, capacity};
}

void build(JinjaWork *w, Builder *b, MarkedText t) {
    reserve(w, b, t.n);
    if (t.n == 0) return;
    memcpy(b->data + b->n, t.data, t.n);
    memcpy(b->marks + b->n, t.marks, t.n);
    b->n += t.n;
}

void build_bytes(JinjaWork *w, Builder *b, const char *data, size_t n, char mark) {
    build(w, b, text_of(w, data, n, mark));
}

MarkedText built(const Builder *b) { return b->data ? (MarkedText){b->data, b->marks, b->n} : (MarkedText){"", "", 0}; }

/* ---- writing values ---- */

static void build_word(JinjaWork *w, Builder *b, const char *word, char mark) {
    build_bytes(w, b, word, strlen(word), mark);
}

/* The shortest digits that read back as x, as Python lays them out. */
static void build_float(JinjaWork *w, Builder *b, double x, char mark) {
    char text[40], digits[40];
    int precision = 0;
    if (!isfinite(x)) {
        build_word(w, b, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf", mark);
        return;
    }
    do snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && precision++ < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        snprintf(text, sizeof text, "%.*f", MAX(precision - exponent, 1), x);
        build_word(w, b, text, mark);
    } else {
        build_word(w, b, digits, mark);
    }
}

/* One character of a text in quotes. */
static void build_quoted(JinjaWork *w, Builder *b, MarkedText c, char quote, bool json) {
    static const char from[] = "\n\r\t\\\b\f", to[] = "nrt\\bf";
    char escape[16] = "";
    ucs4_t code;
    u8_mbtouc(&code, (const uint8_t *)c.data, c.n);
    const char *at = code && code < 0x80 ? memchr(from, (int)code, json ? 6 : 4) : NULL;
    if (at)
        snprintf(escape, sizeof escape, "\\%c", to[at - from]);
    else if (code == (ucs4_t)quote)
        snprintf(escape, sizeof escape, "\\%c", quote);
    else if (json ? code < 0x20
                  : code != ' ' && uc_is_general_category_withtable(code, UC_CATEGORY_MASK_Z | UC_CATEGORY_MASK_C))
        snprintf(escape, sizeof escape, json || code > 0xFF ? code > 0xFFFF ? "\\U%08x" : "\\u%04x" : "\\x%02x", code);
    if (*escape)
        build_word(w, b, escape, *c.marks);
    else
        build(w, b, c);
}

static void build_quotes(JinjaWork *w, Builder *b, MarkedText t, bool json) {
    char quote = json || (memchr(t.data, '\'', t.n) && !memchr(t.data, '"', t.n)) ? '"' : '\'';
    build_bytes(w, b, &quote, 1, MARK_CONTENT);
    for (size_t at = 0, n; at < t.n; at += n) {
        utf8_next(t.data + at, t.n - at, &n);
        build_quoted(w, b, text_cut(t, at, at + n), quote, json);
    }
    build_bytes(w, b, &quote, 1, MARK_CONTENT);
}

static void build_line(JinjaWork *w, Builder *b, const Layout *l, int level) {
    if (l->indent < 0) return;
    build_word(w, b, "\n", MARK_CONTENT);
    for (int64_t i = 0; i < l->indent * level; i++) build_word(w, b, " ", MARK_CONTENT);
}

static void build_inside(JinjaWork *w, Builder *b, Value v, const Layout *l, int level);

static int by_key(const void *a, const void *b) {
    const Value *x = a, *y = b;
    int order = memcmp(x->text.data, y->text.data, MIN(x->text.n, y->text.n));
    return order ? order : (x->text.n > y->text.n) - (x->text.n < y->text.n);
}

static void build_dict(JinjaWork *w, Builder *b, const Dict *d, const Layout *l, int level) {
    Items keys = items_of(w, (Value){.kind = VALUE_DICT, .dict = (Dict *)d});
    if (l->sorted) qsort(keys.items, keys.n, sizeof *keys.items, by_key);
    build_word(w, b, "{", MARK_CONTENT);
    for (size_t i = 0; i < d->n; i++) {
        Value key = l->writing == WRITE_JSON ? value_text(text_str(w, keys.items[i])) : keys.items[i];
        const Value *value = l->sorted ? dict_at(d, key.text) : &d->pairs[i].value;
        if (i) build(w, b, l->comma);
        build_line(w, b, l, level + 1);
        build_inside(w, b, key, l, level + 1);
        build(w, b, l->colon);
        build_inside(w, b, *value, l, level + 1);
    }
    if (d->n) build_line(w, b, l, level);
    build_word(w, b, "}", MARK_CONTENT);
}

static void build_list(JinjaWork *w, Builder *b, Value v, const Layout *l, int level) {
    bool tuple = v.kind == VALUE_TUPLE && l->writing != WRITE_JSON;
    build_word(w, b, tuple ? "(" : "[", MARK_CONTENT);
    for (size_t i = 0; i < v.list.n; i++) {
        if (i) build(w, b, l->comma);
        build_line(w, b, l, level + 1);
        build_inside(w, b, v.list.items[i], l, level + 1);
    }
    if (v.list.n) build_line(w, b, l, level);
    build_word(w, b, !tuple ? "]" : v.list.n == 1 ? ",)" : ")", MARK_CONTENT);
}

static void build_inside(JinjaWork *w, Builder *b, Value v, const Layout *l, int level) {
    bool json = l->writing == WRITE_JSON;
    char digits[24];
    work_enter(w);
    if (v.kind == VALUE_TEXT)
        build_quotes(w, b, v.text, json);
    else if (value_is_list(v))
        build_list(w, b, v, l, level);
    else if (v.kind == VALUE_DICT)
        build_dict(w, b, v.dict, l, level);
    else if (v.kind == VALUE_FLOAT)
        build_float(w, b, v.number, v.mark);
    else if (v.kind == VALUE_INTEGER)
        snprintf(digits, sizeof digits, "%" PRId64, v.integer), build_word(w, b, digits, v.mark);
    else if (v.kind == VALUE_BOOLEAN)
        build_word(w, b, json ? v.integer ? "true" : "false" : v.integer ? "True" : "False", v.mark);
    else if (v.kind == VALUE_NONE)
        build_word(w, b, json ? "null" : "None", v.mark);
    else if (json)
        work_fail(w, "%s cannot be written as JSON", value_kind_name(v));
    else if (!value_is_missing(v))
        work_fail(w, "%s cannot be written", value_kind_name(v));
    else if (l->writing == WRITE_REPR)
        build_word(w, b, "Undefined", MARK_TEMPLATE);
    w->depth--;
}

void build_value(JinjaWork *w, Builder *b, Value v, const Layout *layout) {
    Layout l = *layout;
    if (l.writing == WRITE_STR && v.kind == VALUE_TEXT) {
        build(w, b, v.text);
        return;
    }
    if (l.writing == WRITE_STR && !value_is_missing(v)) l.writing = WRITE_REPR;
    if (!l.comma.n) l.comma = text_of(w, ", ", l.indent < 0 ? 2 : 1, MARK_CONTENT);
    if (!l.colon.n) l.colon = text_of(w, ": ", 2, MARK_CONTENT);
    build_inside(w, b, v, &l, 0);
}

MarkedText text_str(JinjaWork *w, Value v) {
    Builder b = {0};
    if (v.kind == VALUE_TEXT) return v.text;
    build_value(w, &b, v, &(Layout){WRITE_STR, .indent = -1});
    return built(&b);
}

/* ---- replacing, stripping ---- */

MarkedText text_replaced(JinjaWork *w, MarkedText t, MarkedText what, MarkedText by, int64_t most) {
    Builder b = {0};
    size_t at = 0;
    for (; most && at <= t.n; most--) {
        size_t found = text_find(w, t, at, what), next;
        if (found > t.n) break;
        build(w, &b, text_cut(t, at, found));
        build(w, &b, by);
        at = found + what.n;
        if (what.n) continue;
        if (at == t.n) return built(&b); /* "" is between all characters and at both ends */
        utf8_next(t.data + at, t.n - at, &next);
        build(w, &b, text_cut(t, at, at + next));
        at += next;
    }
    if (at < t.n) build(w, &b, text_cut(t, at, t.n));
    return built(&b);
}

/* As Python's str.isspace sees it. */
static bool is_white(ucs4_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t text_white(const char *data, size_t n) {
    ucs4_t c;
    if (n == 0) return 0;
    int length = u8_mbtouc(&c, (const uint8_t *)data, n);
    return is_white(c) ? (size_t)length : 0;
}

static bool is_stripped(JinjaWork *w, MarkedText c, Value chars) {
    if (value_is_missing(chars) || chars.kind == VALUE_NONE) return text_white(c.data, c.n) > 0;
    return memmem(value_string(w, chars, "what is stripped").data, chars.text.n, c.data, c.n);
}

MarkedText text_strip(JinjaWork *w, MarkedText t, Value chars, bool front, bool back) {
    size_t n;
    work_step(w, 0);
    for (; front && t.n; t = text_cut(t, n, t.n)) {
        utf8_next(t.data, t.n, &n);
        if (!is_stripped(w, text_cut(t, 0, n), chars)) break;
        work_step(w, 0);
    }
    for (; back && t.n; t.n -= n) {
        for (n = 1; n < t.n && ((unsigned char)t.data[t.n - n] & 0xC0) == 0x80;) n++;
        if (!is_stripped(w, text_cut(t, t.n - n, t.n), chars)) break;
        work_step(w, 0);
    }
    return t;
}

/* ---- upper and lower case ---- */

MarkedText text_case(JinjaWork *w, MarkedText t, Case to) {
    typedef uint8_t *Map(const uint8_t *, size_t, const char *, uninorm_t, uint8_t *, size_t *);
    Builder b = {0};
    bool inside = false; /* a word, or for CASE_CAPITAL the text */
    for (size_t at = 0, n; at < t.n; at += n) {
        uint8_t small[32];
        size_t length = sizeof small;
        ucs4_t c;
        utf8_next(t.data + at, t.n - at, &n);
        u8_mbtouc(&c, (const uint8_t *)t.data + at, n);
        bool lower = to == CASE_LOWER || (to != CASE_UPPER && inside);
        Map *map = lower ? u8_tolower : to == CASE_UPPER || to == CASE_WORDS ? u8_toupper : u8_totitle;
        const uint8_t *mapped = map((const uint8_t *)t.data + at, n, NULL, NULL, small, &length);
        if (mapped != small) work_fail(w, "no memory to change letters");
        build_bytes(w, &b, (const char *)small, length, t.marks[at]);
        bool parts = is_white(c) || (c < 0x80 && strchr("-({[<", (int)c)); /* as Jinja's filter has it */
        inside = to == CASE_CAPITAL || (to == CASE_WORDS ? !parts : uc_is_property_cased(c));
    }
    return built(&b);
}
