#include "base/err.h"
#include "base/utf8.h"
#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/text.h"

#include <string.h>
#include <time.h>

/* ---- strings ---- */

static Value lstrip(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, v.text, a[0], true, false));
}
static Value rstrip(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, v.text, a[0], false, true));
}
static Value title(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, v.text, CASE_TITLE));
}

static bool at_end(JinjaWork *w, MarkedText t, Value part, bool back) {
    MarkedText p = value_string(w, part, "what a string begins or ends with");
    work_step(w, p.n);
    return p.n <= t.n && !memcmp(t.data + (back ? t.n - p.n : 0), p.data, p.n);
}
static Value startswith(JinjaWork *w, Value v, const Value *a) { return value_bool(at_end(w, v.text, a[0], false)); }
static Value endswith(JinjaWork *w, Value v, const Value *a) { return value_bool(at_end(w, v.text, a[0], true)); }

/* Between runs of white space. */
static Value split_white(JinjaWork *w, MarkedText t, int64_t most) {
    Value parts = value_list();
    for (t = text_strip(w, t, value_none(), true, false); t.n; most--) {
        size_t n = 0;
        while (n < t.n && (most == 0 || !text_white(t.data + n, t.n - n))) n++;
        list_push(w, &parts, value_text(text_cut(t, 0, n)));
        t = text_strip(w, text_cut(t, n, t.n), value_none(), true, false);
    }
    return parts;
}

static Value split(JinjaWork *w, Value v, const Value *a) {
    Value parts = value_list();
    MarkedText t = v.text;
    int64_t most = value_is_missing(a[1]) ? -1 : value_integer(w, a[1], "maxsplit");
    if (value_is_missing(a[0]) || a[0].kind == VALUE_NONE) return split_white(w, t, most);
    MarkedText by = value_string(w, a[0], "a separator");
    if (by.n == 0) work_fail(w, "an empty separator");
    for (size_t at; most && (at = text_find(w, t, 0, by)) <= t.n; most--) {
        list_push(w, &parts, value_text(text_cut(t, 0, at)));
        t = text_cut(t, at + by.n, t.n);
    }
    list_push(w, &parts, value_text(t));
    return parts;
}

static Value find(JinjaWork *w, Value v, const Value *a) {
    size_t at = text_find(w, v.text, 0, value_string(w, a[0], "what is looked for"));
    return value_int(at > v.text.n ? -1 : (int64_t)utf8_count(v.text.data, at));
}

static Value join(JinjaWork *w, Value v, const Value *a) {
    Builder b = {0};
    Value all = list_of(w, a[0]);
    for (size_t i = 0; i < all.n; i++) {
        if (i) build(w, &b, v.text);
        build(w, &b, value_string(w, all.items[i], "what is joined"));
    }
    return value_text(built(&b));
}

/* ---- dicts ---- */

static Value keys(JinjaWork *w, Value v, const Value *a) { return (void)a, list_of(w, v); }

static Value values(JinjaWork *w, Value v, const Value *a) {
    Value all = value_list();
    for (size_t i = 0; i < v.dict->n; i++) list_push(w, &all, v.dict->pairs[i].value);
    return (void)a, all;
}

static Value get(JinjaWork *w, Value v, const Value *a) {
    const Value *at = dict_at(w, v.dict, value_string(w, a[0], "a key"));
    return at ? *at : a[1].kind == VALUE_ABSENT ? value_none() : a[1];
}

/* ---- functions ---- */

static Value range(JinjaWork *w, Value v, const Value *a) {
    enum { LONGEST = 100000 };
    Value all = value_list();
    int64_t from = value_integer(w, a[0], "start"), to = value_is_missing(a[1]) ? from : value_integer(w, a[1], "stop");
    int64_t step = value_is_missing(a[2]) ? 1 : value_integer(w, a[2], "step");
    if (value_is_missing(a[1])) from = 0;
    if (step == 0) work_fail(w, "a range with step 0");
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        if (all.n == LONGEST) work_fail(w, "a range of more than %d numbers", LONGEST);
        list_push(w, &all, value_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return (void)v, all;
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
    const Value *given = scope_find(w, w->globals, text_word(w, "date_string"));
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

enum { TEXTS = 1 << VALUE_TEXT, DICTS = 1 << VALUE_DICT };

const Builtin jinja_methods[] = {
    {"capitalize", filter_capitalize, "", TEXTS},
    {"endswith", endswith, "suffix!", TEXTS},
    {"find", find, "sub!", TEXTS},
    {"join", join, "iterable!", TEXTS},
    {"lower", filter_lower, "", TEXTS},
    {"lstrip", lstrip, "chars", TEXTS},
    {"replace", filter_replace, "old! new! count", TEXTS},
    {"rstrip", rstrip, "chars", TEXTS},
    {"split", split, "sep maxsplit", TEXTS},
    {"startswith", startswith, "prefix!", TEXTS},
    {"strip", filter_trim, "chars", TEXTS},
    {"title", title, "", TEXTS},
    {"upper", filter_upper, "", TEXTS},
    {"get", get, "key! default", DICTS},
    {"items", filter_items, "", DICTS},
    {"keys", keys, "", DICTS},
    {"values", values, "", DICTS},
    {NULL, NULL, NULL, 0},
};

const Builtin jinja_functions[] = {
    {"dict", dict, "from *", 0},
    {"namespace", namespace, "from *", 0},
    {"raise_exception", raise_exception, "message!", 0},
    {"range", range, "start! stop step", 0},
    {"strftime_now", strftime_now, "format!", 0},
    {NULL, NULL, NULL, 0},
};
