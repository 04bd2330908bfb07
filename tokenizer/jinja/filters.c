#include "base/err.h"
#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/parts.h"
#include "tokenizer/jinja/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

static Value in_case(JinjaWork *w, Value v, Case to) { return value_text(text_case(w, text_str(w, v), to)); }
Value filter_upper(JinjaWork *w, Value v, const Value *a) { return (void)a, in_case(w, v, CASE_UPPER); }
Value filter_lower(JinjaWork *w, Value v, const Value *a) { return (void)a, in_case(w, v, CASE_LOWER); }
Value filter_capitalize(JinjaWork *w, Value v, const Value *a) { return (void)a, in_case(w, v, CASE_CAPITAL); }
static Value title(JinjaWork *w, Value v, const Value *a) { return (void)a, in_case(w, v, CASE_WORDS); }
static Value string(JinjaWork *w, Value v, const Value *a) { return (void)a, value_text(text_str(w, v)); }
static Value as_it_is(JinjaWork *w, Value v, const Value *a) { return (void)w, (void)a, v; }

Value filter_trim(JinjaWork *w, Value v, const Value *a) {
    return value_text(text_strip(w, text_str(w, v), a[0], true, true));
}

Value filter_replace(JinjaWork *w, Value v, const Value *a) {
    int64_t most = value_is_missing(a[2]) ? -1 : value_integer(w, a[2], "count");
    return value_text(text_replaced(w, text_str(w, v), text_str(w, a[0]), text_str(w, a[1]), most));
}

static Value indent(JinjaWork *w, Value v, const Value *a) {
    MarkedText t = text_str(w, v);
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
    enum { WIDEST = 100 };
    bool lines = !value_is_missing(a[1]) && a[1].kind != VALUE_NONE;
    int64_t indent = lines ? value_integer(w, a[1], "indent") : -1;
    MarkedText comma = text_of(w, ", ", lines ? 1 : 2, MARK_CONTENT), colon = text_of(w, ": ", 2, MARK_CONTENT);
    if (lines && (indent < 0 || indent > WIDEST)) work_fail(w, "an indent that is not 0 to %d", WIDEST);
    if (value_true(a[0])) work_fail(w, "tojson writes characters as they are: ensure_ascii cannot be true");
    if (value_is_list(a[2]) && a[2].n == 2) {
        comma = value_string(w, a[2].items[0], "a separator");
        colon = value_string(w, a[2].items[1], "a separator");
    }
    return value_text(text_json(w, v, indent, comma, colon));
}

/* ---- numbers ---- */

/* Of a number, or of all of a text, between white space. */
static bool number_of(JinjaWork *w, Value v, double *x) {
    char digits[64], *end;
    *x = value_is_number(v) ? value_number(v) : 0;
    if (v.kind != VALUE_TEXT) return value_is_number(v);
    MarkedText t = text_strip(w, v.text, value_none(), true, true);
    snprintf(digits, sizeof digits, "%.*s", (int)MIN(t.n, sizeof digits), t.data);
    *x = strtod(digits, &end);
    return t.n && t.n < sizeof digits && !*end && !strpbrk(digits, "xXpP(");
}

static Value to_kind(JinjaWork *w, Value v, const Value *a, ValueKind kind) {
    Value r = {.kind = kind, .mark = MARK_CONTENT}, zero = {.kind = kind};
    double x;
    if (v.kind == kind) return v;
    if (!number_of(w, v, &x) || (kind == VALUE_INTEGER && !(fabs(x) < 9e18)))
        return value_is_missing(a[0]) ? zero : a[0];
    if (kind == VALUE_INTEGER)
        r.integer = (int64_t)x;
    else
        r.number = x;
    return r;
}
static Value to_int(JinjaWork *w, Value v, const Value *a) { return to_kind(w, v, a, VALUE_INTEGER); }
static Value to_float(JinjaWork *w, Value v, const Value *a) { return to_kind(w, v, a, VALUE_FLOAT); }

static Value absolute(JinjaWork *w, Value v, const Value *a) {
    return (void)a, operate(w, OP_MULTIPLY, v, value_int(value_order(w, v, value_int(0)) < 0 ? -1 : 1));
}

/* ---- lists ---- */

static Value length(JinjaWork *w, Value v, const Value *a) { return (void)a, value_int((int64_t)value_length(w, v)); }

static Value list(JinjaWork *w, Value v, const Value *a) {
    Value all = list_of(w, v);
    all.kind = VALUE_LIST;
    return (void)a, all;
}

static Value end_of(JinjaWork *w, Value v, bool last) {
    Value all = list_of(w, v);
    if (all.n == 0) return value_undefined(w, "an empty sequence has no %s item", last ? "last" : "first");
    return all.items[last ? all.n - 1 : 0];
}
static Value first(JinjaWork *w, Value v, const Value *a) { return (void)a, end_of(w, v, false); }
static Value last(JinjaWork *w, Value v, const Value *a) { return (void)a, end_of(w, v, true); }

static Value join(JinjaWork *w, Value v, const Value *a) {
    Builder b = {0};
    Value all = list_of(w, v);
    MarkedText between = text_str(w, a[0]);
    for (size_t i = 0; i < all.n; i++) {
        if (i) build(w, &b, between);
        build(w, &b, text_str(w, value_path(w, all.items[i], a[1])));
    }
    return value_text(built(&b));
}

Value filter_items(JinjaWork *w, Value v, const Value *a) {
    Value all = value_list();
    (void)a;
    if (v.kind != VALUE_DICT && !value_is_missing(v)) work_fail(w, "%s has no items", value_kind_name(v));
    for (size_t i = 0; v.kind == VALUE_DICT && i < v.dict->n; i++) {
        Value pair = {.kind = VALUE_TUPLE};
        list_push(w, &pair, value_text(v.dict->pairs[i].key));
        list_push(w, &pair, v.dict->pairs[i].value);
        list_push(w, &all, pair);
    }
    return all;
}

static Value reverse(JinjaWork *w, Value v, const Value *a) {
    Value turned = value_slice(w, v, (Value[]){value_none(), value_none(), value_int(-1)});
    if (turned.kind == VALUE_TUPLE) turned.kind = VALUE_LIST;
    return (void)a, turned;
}

static Value sum(JinjaWork *w, Value v, const Value *a) {
    Value all = list_of(w, v), total = value_int(0);
    for (size_t i = 0; i < all.n; i++) total = operate(w, OP_ADD, total, value_path(w, all.items[i], a[0]));
    return total;
}

/* ---- choosing ---- */

static Value by_default(JinjaWork *w, Value v, const Value *a) {
    bool falls_back = value_is_missing(v) || (value_true(a[1]) && !value_true(v));
    return !falls_back ? v : a[0].kind == VALUE_ABSENT ? value_text(text_word(w, "")) : a[0];
}

/* The row of a table that `name` speaks of, NULL when it is not given. */
static const Builtin *named(JinjaWork *w, const Builtin *table, Value name, const char *what) {
    if (value_is_missing(name)) return NULL;
    MarkedText text = value_string(w, name, what);
    const Builtin *b = builtin_named(table, text, 0);
    if (!b) work_fail(w, "%.*s is not %s", SHOWN(text), what);
    return b;
}

/* Those of a[0..1] that are given. */
static Arguments passed_on(JinjaWork *w, const Value *a) {
    Arguments given = {value_list(), {0}};
    for (int i = 0; i < 2 && a[i].kind != VALUE_ABSENT; i++) list_push(w, &given.values, a[i]);
    return given;
}

/* What is run through, of what may be none. */
static Value any_of(JinjaWork *w, Value v) { return value_true(v) ? list_of(w, v) : value_list(); }

/* Those items for which the test a[0], or without one the item itself, is `wanted`; of an attribute when there is one.
 */
static Value choose(JinjaWork *w, Value v, Value attribute, const Value *a, bool wanted) {
    Value all = any_of(w, v), some = value_list();
    const Builtin *test = named(w, jinja_tests, a[0], "a test");
    Arguments given = passed_on(w, (Value[]){a[1], {0}});
    for (size_t i = 0; i < all.n; i++) {
        Value item = value_path(w, all.items[i], attribute);
        if (value_true(test ? builtin_call(w, test, item, &given) : item) == wanted) list_push(w, &some, all.items[i]);
    }
    return some;
}
static Value selected(JinjaWork *w, Value v, const Value *a) { return choose(w, v, (Value){0}, a, true); }
static Value rejected(JinjaWork *w, Value v, const Value *a) { return choose(w, v, (Value){0}, a, false); }
static Value select_by(JinjaWork *w, Value v, const Value *a) { return choose(w, v, a[0], a + 1, true); }
static Value reject_by(JinjaWork *w, Value v, const Value *a) { return choose(w, v, a[0], a + 1, false); }

static Value map(JinjaWork *w, Value v, const Value *a) {
    Value all = any_of(w, v), mapped = value_list();
    const Builtin *filter = named(w, jinja_filters, a[0], "a filter");
    Arguments given = passed_on(w, a + 1);
    if (!filter && value_is_missing(a[3])) work_fail(w, "map needs the name of a filter, or attribute");
    for (size_t i = 0; i < all.n; i++) {
        Value item = filter ? builtin_call(w, filter, all.items[i], &given) : value_path(w, all.items[i], a[3]);
        list_push(w, &mapped, value_is_missing(item) && a[4].kind != VALUE_ABSENT ? a[4] : item);
    }
    return mapped;
}

/* ---- order ---- */

typedef struct Keyed {
    Value key, item;
} Keyed;

/* By which an item is ordered. */
static Value key_of(JinjaWork *w, Value item, Value path, Value case_sensitive) {
    Value key = value_path(w, item, path);
    return key.kind == VALUE_TEXT && !value_true(case_sensitive) ? in_case(w, key, CASE_LOWER) : key;
}

/* Stable, also backwards. */
static void merge_sort(JinjaWork *w, Keyed *all, Keyed *spare, size_t n, bool backwards) {
    size_t half = n / 2, a = 0, b = half;
    if (n < 2) return;
    merge_sort(w, all, spare, half, backwards);
    merge_sort(w, all + half, spare, n - half, backwards);
    for (size_t i = 0; i < n; i++) {
        int order = a < half && b < n ? value_order(w, all[a].key, all[b].key) : 0;
        bool second = a == half || (b < n && (backwards ? order < 0 : order > 0));
        spare[i] = all[second ? b++ : a++];
    }
    memcpy(all, spare, n * sizeof *all);
}

static Value sorted(JinjaWork *w, Value v, Value path, Value case_sensitive, bool backwards) {
    Value all = list_of(w, v), result = value_list();
    Keyed *keyed = work_take(w, MAX(2 * all.n, 1) * sizeof *keyed);
    for (size_t i = 0; i < all.n; i++) keyed[i] = (Keyed){key_of(w, all.items[i], path, case_sensitive), all.items[i]};
    merge_sort(w, keyed, keyed + all.n, all.n, backwards);
    for (size_t i = 0; i < all.n; i++) list_push(w, &result, keyed[i].item);
    return result;
}

static Value sort(JinjaWork *w, Value v, const Value *a) { return sorted(w, v, a[2], a[1], value_true(a[0])); }

static Value dictsort(JinjaWork *w, Value v, const Value *a) {
    bool by_value = a[1].kind == VALUE_TEXT && text_is(a[1].text, "value");
    return sorted(w, filter_items(w, v, a), value_int(by_value), a[0], value_true(a[2]));
}

static Value unique(JinjaWork *w, Value v, const Value *a) {
    Value all = list_of(w, v), keys = value_list(), some = value_list();
    for (size_t i = 0; i < all.n; i++) {
        Value key = key_of(w, all.items[i], a[1], a[0]);
        if (value_in(w, key, keys)) continue;
        list_push(w, &keys, key);
        list_push(w, &some, all.items[i]);
    }
    return some;
}

static Value min(JinjaWork *w, Value v, const Value *a) { return end_of(w, sorted(w, v, a[1], a[0], false), false); }
static Value max(JinjaWork *w, Value v, const Value *a) { return end_of(w, sorted(w, v, a[1], a[0], true), false); }

const Builtin jinja_filters[] = {
    {"abs", absolute, "", 0},
    {"capitalize", filter_capitalize, "", 0},
    {"default", by_default, "default_value boolean", 0},
    {"dictsort", dictsort, "case_sensitive by reverse", 0},
    {"first", first, "", 0},
    {"float", to_float, "default", 0},
    {"indent", indent, "width first blank", 0},
    {"int", to_int, "default", 0},
    {"items", filter_items, "", 0},
    {"join", join, "d attribute", 0},
    {"last", last, "", 0},
    {"length", length, "", 0},
    {"list", list, "", 0},
    {"lower", filter_lower, "", 0},
    {"map", map, "filter one two attribute default", 0},
    {"max", max, "case_sensitive attribute", 0},
    {"min", min, "case_sensitive attribute", 0},
    {"reject", rejected, "test value", 0},
    {"rejectattr", reject_by, "attribute! test value", 0},
    {"replace", filter_replace, "old! new! count", 0},
    {"reverse", reverse, "", 0},
    {"safe", as_it_is, "", 0},
    {"select", selected, "test value", 0},
    {"selectattr", select_by, "attribute! test value", 0},
    {"sort", sort, "reverse case_sensitive attribute", 0},
    {"string", string, "", 0},
    {"sum", sum, "attribute", 0},
    {"title", title, "", 0},
    {"tojson", tojson, "ensure_ascii indent separators", 0},
    {"trim", filter_trim, "chars", 0},
    {"unique", unique, "case_sensitive attribute", 0},
    {"upper", filter_upper, "", 0},
    {NULL, NULL, NULL, 0},
};
