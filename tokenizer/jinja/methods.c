#include "base/err.h"
#include "base/utf8.h"
#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/evaluate.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

/* ---- strings ---- */

static Value strip(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, v.text, a[0], true, true));
}
static Value lstrip(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, v.text, a[0], true, false));
}
static Value rstrip(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, v.text, a[0], false, true));
}
static Value upper(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, v.text, CASE_UPPER));
}
static Value lower(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, v.text, CASE_LOWER));
}
static Value title(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, v.text, CASE_TITLE));
}
static Value capitalize(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, v.text, CASE_CAPITAL));
}

static bool at_end(JinjaWork *w, MarkedText t, Value part, bool back) {
    MarkedText p = value_string(w, part, "what a string begins or ends with");
    return p.n <= t.n && !memcmp(t.data + (back ? t.n - p.n : 0), p.data, p.n);
}

/* Of one or any of a tuple. */
static bool at_end_any(JinjaWork *w, MarkedText t, Value part, bool back) {
    if (part.kind != VALUE_TUPLE) return at_end(w, t, part, back);
    for (size_t i = 0; i < part.list.n; i++)
        if (at_end(w, t, part.list.items[i], back)) return true;
    return false;
}
static Value startswith(JinjaWork *w, Value v, const Value *a) {
    return value_bool(at_end_any(w, v.text, a[0], false));
}
static Value endswith(JinjaWork *w, Value v, const Value *a) { return value_bool(at_end_any(w, v.text, a[0], true)); }
static Value removeprefix(JinjaWork *w, Value v, const Value *a) {
    return at_end(w, v.text, a[0], false) ? value_text(text_cut(v.text, a[0].text.n, v.text.n)) : v;
}
static Value removesuffix(JinjaWork *w, Value v, const Value *a) {
    return at_end(w, v.text, a[0], true) ? value_text(text_cut(v.text, 0, v.text.n - a[0].text.n)) : v;
}

static Value replace(JinjaWork *w, Value v, const Value *a) {
    int64_t most = value_is_missing(a[2]) ? -1 : value_integer(w, a[2], "count");
    return value_text(text_replaced(w, v.text, value_string(w, a[0], "what is replaced"),
                                    value_string(w, a[1], "what replaces it"), most));
}

/* Between runs of white space. */
static Value split_white(JinjaWork *w, MarkedText t, int64_t most) {
    Items parts = {0};
    for (t = text_strip(w, t, (Value){0}, true, false); t.n; most--) {
        size_t n = 0;
        while (n < t.n && (most == 0 || !text_white(t.data + n, t.n - n))) n++;
        items_push(w, &parts, value_text(text_cut(t, 0, n)));
        t = text_strip(w, text_cut(t, n, t.n), (Value){0}, true, false);
    }
    return items_value(&parts, VALUE_LIST);
}

static Value split(JinjaWork *w, Value v, const Value *a) {
    Items parts = {0};
    MarkedText t = v.text;
    int64_t most = value_is_missing(a[1]) ? -1 : value_integer(w, a[1], "maxsplit");
    if (value_is_missing(a[0]) || a[0].kind == VALUE_NONE) return split_white(w, t, most);
    MarkedText by = value_string(w, a[0], "a separator");
    if (by.n == 0) work_fail(w, "an empty separator");
    for (size_t at; most && (at = text_find(w, t, 0, by)) <= t.n; most--) {
        items_push(w, &parts, value_text(text_cut(t, 0, at)));
        t = text_cut(t, at + by.n, t.n);
    }
    items_push(w, &parts, value_text(t));
    return items_value(&parts, VALUE_LIST);
}

static Value splitlines(JinjaWork *w, Value v, const Value *a) {
    Items lines = {0};
    for (size_t from = 0, to; from < v.text.n; from = to) {
        for (to = from; to < v.text.n && v.text.data[to] != '\n' && v.text.data[to] != '\r';) to++;
        size_t end = to;
        to += to < v.text.n && v.text.data[to] == '\r' && to + 1 < v.text.n && v.text.data[to + 1] == '\n';
        to += to < v.text.n;
        items_push(w, &lines, value_text(text_cut(v.text, from, value_true(a[0]) ? to : end)));
    }
    return items_value(&lines, VALUE_LIST);
}

static int64_t characters(MarkedText t, size_t bytes) { return (int64_t)utf8_count(t.data, bytes); }

static Value find(JinjaWork *w, Value v, const Value *a) {
    size_t at = text_find(w, v.text, 0, value_string(w, a[0], "what is looked for"));
    return value_int(at > v.text.n ? -1 : characters(v.text, at));
}

static Value rfind(JinjaWork *w, Value v, const Value *a) {
    size_t last = v.text.n + 1;
    MarkedText what = value_string(w, a[0], "what is looked for");
    for (size_t at = 0; at <= v.text.n && (at = text_find(w, v.text, at, what)) <= v.text.n; at++) last = at;
    return value_int(last > v.text.n ? -1 : characters(v.text, last));
}

static Value count(JinjaWork *w, Value v, const Value *a) {
    int64_t n = 0;
    MarkedText what = value_string(w, a[0], "what is counted");
    if (what.n == 0) return value_int(characters(v.text, v.text.n) + 1);
    for (size_t at = 0; (at = text_find(w, v.text, at, what)) <= v.text.n; at += what.n) n++;
    return value_int(n);
}

static Value join(JinjaWork *w, Value v, const Value *a) {
    Builder b = {0};
    Items all = items_of(w, a[0]);
    for (size_t i = 0; i < all.n; i++) {
        if (i) build(w, &b, v.text);
        build(w, &b, value_string(w, all.items[i], "what is joined"));
    }
    return value_text(built(&b));
}

static Value isdigits(JinjaWork *w, Value v, const Value *a) {
    (void)a;
    work_step(w, v.text.n);
    for (size_t i = 0; i < v.text.n; i++)
        if (!isdigit((unsigned char)v.text.data[i])) return value_bool(false);
    return value_bool(v.text.n > 0);
}

/* ---- lists and dicts ---- */

static Value index_of(JinjaWork *w, Value v, const Value *a) {
    for (size_t i = 0; i < v.list.n; i++)
        if (value_equal(w, v.list.items[i], a[0])) return value_int((int64_t)i);
    work_fail(w, "the list has no such item");
}

static Value count_of(JinjaWork *w, Value v, const Value *a) {
    int64_t n = 0;
    for (size_t i = 0; i < v.list.n; i++) n += value_equal(w, v.list.items[i], a[0]);
    return value_int(n);
}

static Value items(JinjaWork *w, Value v, const Value *a) {
    return (void)a, filter_named(text_word(w, "items"))->call(w, v, NULL);
}

static Value keys(JinjaWork *w, Value v, const Value *a) {
    Items all = items_of(w, v);
    return (void)a, items_value(&all, VALUE_LIST);
}

static Value values(JinjaWork *w, Value v, const Value *a) {
    Items all = {0};
    for (size_t i = 0; i < v.dict->n; i++) items_push(w, &all, v.dict->pairs[i].value);
    return (void)a, items_value(&all, VALUE_LIST);
}

static Value get(JinjaWork *w, Value v, const Value *a) {
    for (size_t i = 0; i < v.dict->n; i++)
        if (value_equal(w, v.dict->pairs[i].key, a[0])) return v.dict->pairs[i].value;
    return a[1].kind == VALUE_ABSENT ? value_none() : a[1];
}

/* ---- functions ---- */

static Value range(JinjaWork *w, Value v, const Value *a) {
    enum { LONGEST = 100000 };
    Items all = {0};
    int64_t from = value_integer(w, a[0], "start"), to = value_is_missing(a[1]) ? from : value_integer(w, a[1], "stop");
    int64_t step = value_is_missing(a[2]) ? 1 : value_integer(w, a[2], "step");
    if (value_is_missing(a[1])) from = 0;
    if (step == 0) work_fail(w, "a range with step 0");
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        if (all.n == LONGEST) work_fail(w, "a range of more than %d numbers", LONGEST);
        items_push(w, &all, value_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return (void)v, items_value(&all, VALUE_LIST);
}

static Value mapping(JinjaWork *w, const Value *a, ValueKind kind) {
    Value made = dict_new(w, kind);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; a[k].kind == VALUE_DICT && i < a[k].dict->n; i++)
            dict_put(w, made.dict, a[k].dict->pairs[i].key, a[k].dict->pairs[i].value);
    return made;
}
static Value dict(JinjaWork *w, Value v, const Value *a) { return (void)v, mapping(w, a, VALUE_DICT); }
static Value namespace(JinjaWork *w, Value v, const Value *a) { return (void)v, mapping(w, a, VALUE_NAMESPACE); }

static Value raise_exception(JinjaWork *w, Value v, const Value *a) {
    MarkedText words = text_str(w, a[0]);
    (void)v;
    work_raise(w, words.data, words.n);
}

/* The same request has the same prompt tomorrow: the day is 26 Jul 2024, which published templates fall back to, or
 * the one that the request calls `date_string`, as it stands when it is no such date. */
static Value strftime_now(JinjaWork *w, Value v, const Value *a) {
    const Value *given = scope_find(w->globals, text_word(w, "date_string"));
    MarkedText format = value_string(w, a[0], "the format of a date"), day = text_word(w, "26 Jul 2024");
    char written[256], text[64];
    struct tm date = {0};
    (void)v;
    if (given && given->kind == VALUE_TEXT) day = given->text;
    snprintf(text, sizeof text, "%.*s", (int)MIN(day.n, sizeof text), day.data);
    const char *end = strptime(text, "%d %b %Y", &date);
    if (!end || *end) return value_text(day);
    snprintf(text, sizeof text, "%.*s", (int)MIN(format.n, sizeof text), format.data);
    size_t n = strftime(written, sizeof written, text, &date);
    return value_text(text_of(w, memcpy(work_take(w, n + 1), written, n), n, *day.marks));
}

/* ---- the tables ---- */

static const Builtin methods[] = {
    {"capitalize", capitalize, "", VALUE_TEXT},
    {"count", count, "sub!", VALUE_TEXT},
    {"endswith", endswith, "suffix!", VALUE_TEXT},
    {"find", find, "sub!", VALUE_TEXT},
    {"isdigit", isdigits, "", VALUE_TEXT},
    {"join", join, "iterable!", VALUE_TEXT},
    {"lower", lower, "", VALUE_TEXT},
    {"lstrip", lstrip, "chars", VALUE_TEXT},
    {"removeprefix", removeprefix, "prefix!", VALUE_TEXT},
    {"removesuffix", removesuffix, "suffix!", VALUE_TEXT},
    {"replace", replace, "old! new! count", VALUE_TEXT},
    {"rfind", rfind, "sub!", VALUE_TEXT},
    {"rstrip", rstrip, "chars", VALUE_TEXT},
    {"split", split, "sep maxsplit", VALUE_TEXT},
    {"splitlines", splitlines, "keepends", VALUE_TEXT},
    {"startswith", startswith, "prefix!", VALUE_TEXT},
    {"strip", strip, "chars", VALUE_TEXT},
    {"title", title, "", VALUE_TEXT},
    {"upper", upper, "", VALUE_TEXT},
    {"count", count_of, "value!", VALUE_LIST},
    {"index", index_of, "value!", VALUE_LIST},
    {"get", get, "key! default", VALUE_DICT},
    {"items", items, "", VALUE_DICT},
    {"keys", keys, "", VALUE_DICT},
    {"values", values, "", VALUE_DICT},
};

const Builtin *method_named(ValueKind of, MarkedText name) {
    for (size_t i = 0; i < COUNTOF(methods); i++)
        if (methods[i].of == of && text_is(name, methods[i].name)) return &methods[i];
    return NULL;
}

static const Builtin functions[] = {
    {"dict", dict, "from *", 0},
    {"namespace", namespace, "from *", 0},
    {"raise_exception", raise_exception, "message!", 0},
    {"range", range, "start! stop step", 0},
    {"strftime_now", strftime_now, "format!", 0},
};

const Builtin *function_named(MarkedText name) {
    for (size_t i = 0; i < COUNTOF(functions); i++)
        if (text_is(name, functions[i].name)) return &functions[i];
    return NULL;
}
