#include "tokenizer/jinja/builtin.h"

#include "base/utf8.h"
#include "tokenizer/jinja/text.h"

#include <string.h>

enum { MOST = 6 };

/* Where a[i] comes from: the i-th argument, or the one of that name. */
static Value argument(JinjaWork *w, const Builtin *b, const char *name, size_t i, const Arguments *given,
                      size_t *used) {
    size_t n = strcspn(name, " !");
    const Value *named = given->named ? dict_at(given->named, (MarkedText){name, NULL, n}) : NULL;
    *used += named != NULL;
    if (i < given->n && named) work_fail(w, "%s is given %.*s twice", b->name, (int)n, name);
    if (i >= given->n && !named && name[n] == '!') work_fail(w, "%s needs the argument %.*s", b->name, (int)n, name);
    return i < given->n ? given->values[i] : named ? *named : (Value){0};
}

Value builtin_call(JinjaWork *w, const Builtin *b, Value self, const Arguments *given) {
    Value a[MOST] = {0};
    size_t i = 0, used = 0;
    work_step(w, 0);
    for (const char *name = b->parameters; *name; i++) {
        if (*name == '*') {
            if (given->named) a[i] = (Value){.kind = VALUE_DICT, .dict = (Dict *)given->named}, used = given->named->n;
            break;
        }
        a[i] = argument(w, b, name, i, given, &used);
        name += strcspn(name, " ");
        name += *name == ' ';
    }
    if (given->n > i) work_fail(w, "%s takes at most %zu arguments, not %zu", b->name, i, given->n);
    if (given->named && used < given->named->n) work_fail(w, "%s is given an argument of a name it has not", b->name);
    return b->call(w, self, a);
}

/* ---- attributes ---- */

static Value loop_attribute(JinjaWork *w, const Loop *l, MarkedText name) {
    const struct {
        const char *name;
        Value value;
    } all[] = {{"index", value_int((int64_t)l->at + 1)},
               {"index0", value_int((int64_t)l->at)},
               {"first", value_bool(l->at == 0)},
               {"last", value_bool(l->at + 1 == l->n)},
               {"length", value_int((int64_t)l->n)},
               {"revindex", value_int((int64_t)(l->n - l->at))},
               {"revindex0", value_int((int64_t)(l->n - l->at) - 1)}};
    for (size_t i = 0; i < COUNTOF(all); i++)
        if (text_is(name, all[i].name)) return all[i].value;
    if (text_is(name, "previtem") && l->at > 0) return l->items[l->at - 1];
    if (text_is(name, "nextitem") && l->at + 1 < l->n) return l->items[l->at + 1];
    return value_undefined(w, "the loop has no %.*s", (int)MIN(name.n, 40), name.data);
}

static Value missing(JinjaWork *w, Value v, MarkedText name) {
    return value_undefined(w, "%s has no '%.*s'", value_kind_name(v), (int)MIN(name.n, 80), name.data);
}

static Value method(JinjaWork *w, Value v, MarkedText name) {
    const Builtin *b = method_named(v.kind == VALUE_TUPLE ? VALUE_LIST : v.kind, name);
    if (!b) return (Value){0};
    Function *f = work_take(w, sizeof *f);
    *f = (Function){b, v};
    return (Value){.kind = VALUE_FUNCTION, .function = f};
}

static const Value *key_of(JinjaWork *w, Value v, MarkedText name) {
    if (v.kind != VALUE_DICT && v.kind != VALUE_NAMESPACE) return NULL;
    work_step(w, 16 * v.dict->n);
    return dict_at(v.dict, name);
}

Value value_attribute(JinjaWork *w, Value v, MarkedText name) {
    if (v.kind == VALUE_UNDEFINED) work_fail(w, "%s", v.text.data);
    Value m = method(w, v, name);
    if (m.kind != VALUE_ABSENT) return m;
    if (v.kind == VALUE_LOOP) return loop_attribute(w, v.loop, name);
    const Value *at = key_of(w, v, name);
    return at ? *at : missing(w, v, name);
}

static Value place(JinjaWork *w, Value v, int64_t i) {
    int64_t n = (int64_t)value_length(w, v);
    i += i < 0 ? n : 0;
    if (i < 0 || i >= n) return value_undefined(w, "%s has no element %lld", value_kind_name(v), (long long)i);
    if (v.kind != VALUE_TEXT) return v.list.items[i];
    size_t at = 0, length;
    for (;; at += length) {
        utf8_next(v.text.data + at, v.text.n - at, &length);
        if (i-- == 0) return value_text(text_cut(v.text, at, at + length));
    }
}

Value value_item(JinjaWork *w, Value v, Value key) {
    if (v.kind == VALUE_UNDEFINED) work_fail(w, "%s", v.text.data);
    if ((value_is_list(v) || v.kind == VALUE_TEXT) && (key.kind == VALUE_INTEGER || key.kind == VALUE_BOOLEAN))
        return place(w, v, key.integer);
    if (key.kind == VALUE_TEXT) {
        const Value *at = v.kind == VALUE_DICT ? key_of(w, v, key.text) : NULL;
        return at ? *at : value_attribute(w, v, key.text);
    }
    for (size_t i = 0; v.kind == VALUE_DICT && i < v.dict->n; i++)
        if (value_equal(w, v.dict->pairs[i].key, key)) return v.dict->pairs[i].value;
    return missing(w, v, text_str(w, key));
}
