#include "base/err.h"
#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

static MarkedText str(JinjaWork *w, Value v) { return text_str(w, v); }
static Value upper(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, str(w, v), CASE_UPPER));
}
static Value lower(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, str(w, v), CASE_LOWER));
}
static Value title(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, str(w, v), CASE_WORDS));
}
static Value capitalize(JinjaWork *w, Value v, const Value *a) {
    return (void)a, value_text(text_case(w, str(w, v), CASE_CAPITAL));
}
static Value trim(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, str(w, v), a[0], true, true));
}
static Value string(JinjaWork *w, Value v, const Value *a) { return (void)a, value_text(str(w, v)); }

static Value replace(JinjaWork *w, Value v, const Value *a) {
    int64_t most = value_is_missing(a[2]) || a[2].kind == VALUE_NONE ? -1 : value_integer(w, a[2], "count");
    return value_text(text_replaced(w, str(w, v), str(w, a[0]), str(w, a[1]), most));
}

static Value indent(JinjaWork *w, Value v, const Value *a) {
    MarkedText t = str(w, v);
    Builder b = {0}, blanks = {0};
    int64_t width = value_is_missing(a[0]) ? 4 : a[0].kind == VALUE_TEXT ? 0 : value_integer(w, a[0], "width");
    if (a[0].kind == VALUE_TEXT) build(w, &blanks, a[0].text);
    for (int64_t i = 0; i < width; i++) build_bytes(w, &blanks, " ", 1, MARK_TEMPLATE);
    for (size_t from = 0, line = 0, to; from <= t.n; from = to + 1, line++) {
        const char *end = memchr(t.data + from, '\n', t.n - from);
        to = end ? (size_t)(end - t.data) : t.n;
        if (line == 0 ? value_true(a[1]) : to > from || value_true(a[2])) build(w, &b, built(&blanks));
        build(w, &b, text_cut(t, from, MIN(to + 1, t.n)));
    }
    return value_text(built(&b));
}

static Value tojson(JinjaWork *w, Value v, const Value *a) {
    Builder b = {0};
    Layout l = {WRITE_JSON, .indent = -1, .sorted = value_true(a[3])};
    if (value_true(a[0])) work_fail(w, "tojson writes characters as they are: ensure_ascii cannot be true");
    if (!value_is_missing(a[1]) && a[1].kind != VALUE_NONE) l.indent = value_integer(w, a[1], "indent");
    if (value_is_list(a[2]) && a[2].list.n == 2) {
        l.comma = value_string(w, a[2].list.items[0], "a separator");
        l.colon = value_string(w, a[2].list.items[1], "a separator");
    }
    build_value(w, &b, v, &l);
    return value_text(built(&b));
}

/* ---- numbers ---- */

/* All of a text, between white space, as a number. */
static bool number_of(JinjaWork *w, Value v, double *x) {
    char digits[64], *end;
    MarkedText t = v.kind == VALUE_TEXT ? text_strip(w, v.text, (Value){0}, true, true) : (MarkedText){0};
    *x = value_is_number(v) ? value_number(v) : 0;
    if (v.kind != VALUE_TEXT || t.n == 0 || t.n >= sizeof digits) return value_is_number(v);
    snprintf(digits, sizeof digits, "%.*s", (int)t.n, t.data);
    *x = strtod(digits, &end);
    return !*end && !strpbrk(digits, "xXpP(");
}

static Value to_int(JinjaWork *w, Value v, const Value *a) {
    double x;
    if (v.kind == VALUE_INTEGER) return v;
    bool is = number_of(w, v, &x) && fabs(x) < 9e18;
    Value r = is ? value_int((int64_t)x) : value_is_missing(a[0]) ? value_int(0) : a[0];
    r.mark = is ? MARK_CONTENT : r.mark;
    return r;
}

static Value to_float(JinjaWork *w, Value v, const Value *a) {
    double x;
    bool is = number_of(w, v, &x);
    Value r = is ? value_float(x) : value_is_missing(a[0]) ? value_float(0) : a[0];
    r.mark = is ? MARK_CONTENT : r.mark;
    return r;
}

static Value absolute(JinjaWork *w, Value v, const Value *a) {
    (void)a;
    if (!value_is_number(v)) work_fail(w, "%s has no absolute value", value_kind_name(v));
    return v.kind == VALUE_FLOAT ? value_float(fabs(v.number)) : v.integer < 0 ? value_int(-(v.integer + 1) + 1) : v;
}

/* ---- lists ---- */

static Value length(JinjaWork *w, Value v, const Value *a) { return (void)a, value_int((int64_t)value_length(w, v)); }

static Value list(JinjaWork *w, Value v, const Value *a) {
    Items all = items_of(w, v);
    return (void)a, items_value(&all, VALUE_LIST);
}

static Value end_of(JinjaWork *w, Value v, bool last) {
    Items all = items_of(w, v);
    if (all.n == 0) return value_undefined(w, "an empty sequence has no %s item", last ? "last" : "first");
    return all.items[last ? all.n - 1 : 0];
}
static Value first(JinjaWork *w, Value v, const Value *a) { return (void)a, end_of(w, v, false); }
static Value last(JinjaWork *w, Value v, const Value *a) { return (void)a, end_of(w, v, true); }

/* "a.b.0" of a value. */
static Value path_of(JinjaWork *w, Value v, Value path) {
    if (path.kind != VALUE_TEXT) return value_item(w, v, path);
    for (size_t from = 0, to; from <= path.text.n; from = to + 1) {
        const char *dot = memchr(path.text.data + from, '.', path.text.n - from);
        to = dot ? (size_t)(dot - path.text.data) : path.text.n;
        MarkedText part = text_cut(path.text, from, to);
        bool place = part.n && part.n < 9 && strspn(part.data, "0123456789") >= part.n;
        v = value_item(w, v, place ? value_int(atoll(part.data)) : value_text(part));
    }
    return v;
}

static Value join(JinjaWork *w, Value v, const Value *a) {
    Builder b = {0};
    Items all = items_of(w, v);
    MarkedText between = value_is_missing(a[0]) ? text_word(w, "") : str(w, a[0]);
    for (size_t i = 0; i < all.n; i++) {
        if (i) build(w, &b, between);
        build(w, &b, str(w, value_is_missing(a[1]) ? all.items[i] : path_of(w, all.items[i], a[1])));
    }
    return value_text(built(&b));
}

static Value items(JinjaWork *w, Value v, const Value *a) {
    Items all = {0};
    (void)a;
    if (v.kind != VALUE_DICT && !value_is_missing(v)) work_fail(w, "%s has no items", value_kind_name(v));
    for (size_t i = 0; v.kind == VALUE_DICT && i < v.dict->n; i++) {
        Items pair = {0};
        items_push(w, &pair, v.dict->pairs[i].key);
        items_push(w, &pair, v.dict->pairs[i].value);
        items_push(w, &all, items_value(&pair, VALUE_TUPLE));
    }
    return items_value(&all, VALUE_LIST);
}

static Value reverse(JinjaWork *w, Value v, const Value *a) {
    Items all = items_of(w, v), turned = {0};
    Builder b = {0};
    (void)a;
    for (size_t i = all.n; i-- > 0;)
        if (v.kind == VALUE_TEXT)
            build(w, &b, all.items[i].text);
        else
            items_push(w, &turned, all.items[i]);
    return v.kind == VALUE_TEXT ? value_text(built(&b)) : items_value(&turned, VALUE_LIST);
}

static Value sum(JinjaWork *w, Value v, const Value *a) {
    Items all = items_of(w, v);
    double x = value_is_missing(a[1]) ? 0 : value_number(a[1]);
    bool whole = value_is_missing(a[1]) || a[1].kind != VALUE_FLOAT;
    for (size_t i = 0; i < all.n; i++) {
        Value item = value_is_missing(a[0]) ? all.items[i] : path_of(w, all.items[i], a[0]);
        if (!value_is_number(item)) work_fail(w, "%s is no number to add", value_kind_name(item));
        x += value_number(item);
        whole = whole && item.kind != VALUE_FLOAT;
    }
    return whole ? value_int((int64_t)x) : value_float(x);
}

/* ---- choosing ---- */

static Value by_default(JinjaWork *w, Value v, const Value *a) {
    bool falls_back = value_is_missing(v) || (value_true(a[1]) && !value_true(v));
    return !falls_back ? v : a[0].kind == VALUE_ABSENT ? value_text(text_word(w, "")) : a[0];
}

/* Those items for which the test, or without one the item itself, is `wanted`; of attribute a[0] when there is one. */
static Value choose(JinjaWork *w, Value v, Value attribute, const Value *a, bool wanted) {
    Items all = items_of(w, v), some = {0};
    const Builtin *test = value_is_missing(a[0]) ? NULL : test_named(value_string(w, a[0], "the name of a test"));
    if (!test && !value_is_missing(a[0])) work_fail(w, "there is no test %.*s", (int)a[0].text.n, a[0].text.data);
    for (size_t i = 0; i < all.n; i++) {
        Value item = value_is_missing(attribute) ? all.items[i] : path_of(w, all.items[i], attribute);
        Arguments given = {a + 1, a[1].kind != VALUE_ABSENT, NULL};
        if (value_true(test ? builtin_call(w, test, item, &given) : item) == wanted) items_push(w, &some, all.items[i]);
    }
    return items_value(&some, VALUE_LIST);
}
static Value selected(JinjaWork *w, Value v, const Value *a) { return choose(w, v, (Value){0}, a, true); }
static Value rejected(JinjaWork *w, Value v, const Value *a) { return choose(w, v, (Value){0}, a, false); }
static Value select_by(JinjaWork *w, Value v, const Value *a) { return choose(w, v, a[0], a + 1, true); }
static Value reject_by(JinjaWork *w, Value v, const Value *a) { return choose(w, v, a[0], a + 1, false); }

static Value map(JinjaWork *w, Value v, const Value *a) {
    Items all = items_of(w, v), mapped = {0};
    const Builtin *filter = value_is_missing(a[0]) ? NULL : filter_named(value_string(w, a[0], "the name of a filter"));
    if (!filter && value_is_missing(a[3])) work_fail(w, "map needs the name of a filter, or attribute");
    for (size_t i = 0; i < all.n; i++) {
        Arguments given = {a + 1, (size_t)(a[1].kind != VALUE_ABSENT) + (a[2].kind != VALUE_ABSENT), NULL};
        Value item = filter ? builtin_call(w, filter, all.items[i], &given) : path_of(w, all.items[i], a[3]);
        items_push(w, &mapped, value_is_missing(item) && a[4].kind != VALUE_ABSENT ? a[4] : item);
    }
    return items_value(&mapped, VALUE_LIST);
}

/* ---- order ---- */

static Value key_for(JinjaWork *w, Value item, Value path, Value case_sensitive) {
    Value key = value_is_missing(path) ? item : path_of(w, item, path);
    bool folded = key.kind == VALUE_TEXT && !value_true(case_sensitive);
    return folded ? value_text(text_case(w, key.text, CASE_LOWER)) : key;
}

/* Stable: each pass merges runs of twice the length. */
static Items sorted(JinjaWork *w, Items all, Value path, Value case_sensitive, bool backwards) {
    struct Keyed {
        Value key, item;
    } *from = work_take(w, MAX(all.n, 1) * sizeof *from), *to = work_take(w, MAX(all.n, 1) * sizeof *to);
    Items result = {0};
    for (size_t i = 0; i < all.n; i++)
        from[i] = (struct Keyed){key_for(w, all.items[i], path, case_sensitive), all.items[i]};
    for (size_t run = 1; run < all.n; run *= 2) {
        for (size_t start = 0; start < all.n; start += 2 * run) {
            size_t middle = MIN(start + run, all.n), end = MIN(middle + run, all.n), a = start, b = middle;
            for (size_t k = start; k < end; k++) {
                int order = a == middle ? 1 : b == end ? -1 : value_order(w, from[a].key, from[b].key);
                bool right = a == middle || (b < end && (backwards ? order < 0 : order > 0));
                to[k] = from[right ? b++ : a++];
            }
        }
        struct Keyed *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < all.n; i++) items_push(w, &result, from[i].item);
    return result;
}

static Value sort(JinjaWork *w, Value v, const Value *a) {
    Items all = sorted(w, items_of(w, v), a[2], a[1], value_true(a[0]));
    return items_value(&all, VALUE_LIST);
}

static Value dictsort(JinjaWork *w, Value v, const Value *a) {
    Value pairs = items(w, v, a);
    bool by_value = a[1].kind == VALUE_TEXT && text_is(a[1].text, "value");
    Items all = sorted(w, items_of(w, pairs), value_int(by_value), a[0], value_true(a[2]));
    return items_value(&all, VALUE_LIST);
}

static Value unique(JinjaWork *w, Value v, const Value *a) {
    Items all = items_of(w, v), keys = {0}, some = {0};
    for (size_t i = 0; i < all.n; i++) {
        Value key = key_for(w, all.items[i], a[1], a[0]);
        if (value_in(w, key, items_value(&keys, VALUE_LIST))) continue;
        items_push(w, &keys, key);
        items_push(w, &some, all.items[i]);
    }
    return items_value(&some, VALUE_LIST);
}

static Value extreme(JinjaWork *w, Value v, const Value *a, bool greatest) {
    Items all = sorted(w, items_of(w, v), a[1], a[0], greatest);
    return all.n ? all.items[0] : value_undefined(w, "an empty sequence has no extreme");
}
static Value min(JinjaWork *w, Value v, const Value *a) { return extreme(w, v, a, false); }
static Value max(JinjaWork *w, Value v, const Value *a) { return extreme(w, v, a, true); }

static Value as_it_is(JinjaWork *w, Value v, const Value *a) { return (void)w, (void)a, v; }

static const Builtin filters[] = {
    {"abs", absolute, "", 0},
    {"capitalize", capitalize, "", 0},
    {"count", length, "", 0},
    {"d", by_default, "default_value boolean", 0},
    {"default", by_default, "default_value boolean", 0},
    {"dictsort", dictsort, "case_sensitive by reverse", 0},
    {"first", first, "", 0},
    {"float", to_float, "default", 0},
    {"indent", indent, "width first blank", 0},
    {"int", to_int, "default", 0},
    {"items", items, "", 0},
    {"join", join, "d attribute", 0},
    {"last", last, "", 0},
    {"length", length, "", 0},
    {"list", list, "", 0},
    {"lower", lower, "", 0},
    {"map", map, "filter one two attribute default", 0},
    {"max", max, "case_sensitive attribute", 0},
    {"min", min, "case_sensitive attribute", 0},
    {"reject", rejected, "test value", 0},
    {"rejectattr", reject_by, "attribute! test value", 0},
    {"replace", replace, "old! new! count", 0},
    {"reverse", reverse, "", 0},
    {"safe", as_it_is, "", 0},
    {"select", selected, "test value", 0},
    {"selectattr", select_by, "attribute! test value", 0},
    {"sort", sort, "reverse case_sensitive attribute", 0},
    {"string", string, "", 0},
    {"sum", sum, "attribute start", 0},
    {"title", title, "", 0},
    {"tojson", tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", trim, "chars", 0},
    {"unique", unique, "case_sensitive attribute", 0},
    {"upper", upper, "", 0},
};

const Builtin *filter_named(MarkedText name) {
    for (size_t i = 0; i < COUNTOF(filters); i++)
        if (text_is(name, filters[i].name)) return &filters[i];
    return NULL;
}
