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

/* How a list or a dict is written: as Python's repr or as JSON, which may be laid out in lines. */
typedef struct Layout {
    bool json;
    int64_t indent;
    MarkedText comma, colon;
} Layout;

static void build_inside(JinjaWork *w, Builder *b, Value v, const Layout *l, int level);

static void build_line(JinjaWork *w, Builder *b, const Layout *l, int level) {
    if (l->indent < 0) return;
    build_word(w, b, "\n", MARK_CONTENT);
    for (int64_t i = 0; i < l->indent * level; i++) build_word(w, b, " ", MARK_CONTENT);
}

/* A list's items or a dict's pairs. */
static void build_parts(JinjaWork *w, Builder *b, Value v, const Layout *l, int level) {
    bool dict = v.kind == VALUE_DICT, tuple = v.kind == VALUE_TUPLE && !l->json;
    size_t n = dict ? v.dict->n : v.n;
    build_word(w, b, dict ? "{" : tuple ? "(" : "[", MARK_CONTENT);
    for (size_t i = 0; i < n; i++) {
        if (i) build(w, b, l->comma);
        build_line(w, b, l, level + 1);
        if (dict) {
            build_quotes(w, b, v.dict->pairs[i].key, l->json);
            build(w, b, l->colon);
        }
        build_inside(w, b, dict ? v.dict->pairs[i].value : v.items[i], l, level + 1);
    }
    if (n) build_line(w, b, l, level);
    build_word(w, b, dict ? "}" : !tuple ? "]" : n == 1 ? ",)" : ")", MARK_CONTENT);
}

static void build_inside(JinjaWork *w, Builder *b, Value v, const Layout *l, int level) {
    char digits[24];
    work_enter(w);
    if (v.kind == VALUE_TEXT)
        build_quotes(w, b, v.text, l->json);
    else if (value_is_list(v) || v.kind == VALUE_DICT)
        build_parts(w, b, v, l, level);
    else if (v.kind == VALUE_FLOAT)
        build_float(w, b, v.number, v.mark);
    else if (v.kind == VALUE_INTEGER)
        snprintf(digits, sizeof digits, "%" PRId64, v.integer), build_word(w, b, digits, v.mark);
    else if (v.kind == VALUE_BOOLEAN)
        build_word(w, b, l->json ? v.integer ? "true" : "false" : v.integer ? "True" : "False", v.mark);
    else if (v.kind == VALUE_NONE)
        build_word(w, b, l->json ? "null" : "None", v.mark);
    else if (l->json || !value_is_missing(v))
        work_fail(w, "%s cannot be written%s", value_kind_name(v), l->json ? " as JSON" : "");
    else
        build_word(w, b, "Undefined", MARK_TEMPLATE);
    w->depth--;
}

MarkedText text_str(JinjaWork *w, Value v) {
    Builder b = {0};
    if (v.kind == VALUE_TEXT) return v.text;
    const Layout layout = {false, -1, text_of(w, ", ", 2, MARK_CONTENT), text_of(w, ": ", 2, MARK_CONTENT)};
    if (!value_is_missing(v)) build_inside(w, &b, v, &layout, 0);
    return built(&b);
}

MarkedText text_json(JinjaWork *w, Value v, int64_t indent, MarkedText comma, MarkedText colon) {
    Builder b = {0};
    build_inside(w, &b, v, &(Layout){true, indent, comma, colon}, 0);
    return built(&b);
}

/* ---- joining, replacing, stripping ---- */

MarkedText text_joined(JinjaWork *w, MarkedText a, MarkedText b) {
    Builder both = {0};
    reserve(w, &both, a.n + b.n);
    build(w, &both, a);
    build(w, &both, b);
    return built(&both);
}

MarkedText text_replaced(JinjaWork *w, MarkedText t, MarkedText what, MarkedText by, int64_t most) {
    Builder b = {0};
    size_t at = 0;
    if (what.n == 0) work_fail(w, "nothing is to be replaced: the text to look for is empty");
    for (size_t found; most && (found = text_find(w, t, at, what)) <= t.n; most -= most > 0) { /* below 0: all */
        build(w, &b, text_cut(t, at, found));
        build(w, &b, by);
        at = found + what.n;
    }
    build(w, &b, text_cut(t, at, t.n));
    return built(&b);
}

/* As Python's str.isspace sees it. */
static bool is_white(ucs4_t c) { return uc_is_property_white_space(c) || (c >= 0x1C && c <= 0x1F); }

size_t text_white(const char *data, size_t n) {
    ucs4_t c;
    if (n == 0) return 0;
    int length = u8_mbtouc(&c, (const uint8_t *)data, n);
    return is_white(c) ? (size_t)length : 0;
}

static bool is_stripped(JinjaWork *w, MarkedText c, Value chars) {
    if (value_is_missing(chars) || chars.kind == VALUE_NONE) return text_white(c.data, c.n) > 0;
    work_step(w, chars.text.n);
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
