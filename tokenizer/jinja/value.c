#include "tokenizer/jinja/value.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- the work ---- */

enum { BLOCK = 1 << 14, DEEPEST = 400, STEPS = 20000000, STEP_BYTES = 64 };
static const size_t most_room = (size_t)192 << 20;

struct WorkBlock {
    struct WorkBlock *before;
    _Alignas(16) char data[];
};

void work_start(JinjaWork *w, Err *err) {
    *w = (JinjaWork){.err = err, .steps = STEPS, .room = most_room};
    err->msg[0] = '\0';
}

void work_free(JinjaWork *w) {
    for (; w->kept; w->kept = w->kept->next) cJSON_Delete(w->kept->json);
    for (struct WorkBlock *b = w->blocks, *before; b; b = before) {
        before = b->before;
        free(b);
    }
    w->blocks = NULL;
}

void *work_take(JinjaWork *w, size_t n) {
    n = (n + 15) / 16 * 16;
    if (n > w->left) {
        size_t size = MAX(n, BLOCK);
        if (size > w->room) work_fail(w, "it takes more than %zu MiB of memory", most_room >> 20);
        struct WorkBlock *b = try_malloc(sizeof *b + size);
        if (!b) {
            err_set(w->err, "no memory to write the conversation");
            longjmp(w->out, 1);
        }
        b->before = w->blocks;
        w->blocks = b;
        w->room -= size;
        w->at = b->data;
        w->left = size;
    }
    void *p = memset(w->at, 0, n);
    w->at += n;
    w->left -= n;
    return p;
}

void *work_grow(JinjaWork *w, void *items, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return items;
    *capacity = MAX(2 * n, 2);
    void *more = work_take(w, *capacity * size);
    return n ? memcpy(more, items, n * size) : more;
}

cJSON **work_json(JinjaWork *w) {
    struct WorkJson *kept = work_take(w, sizeof *kept);
    kept->next = w->kept;
    w->kept = kept;
    return &kept->json;
}

void work_step(JinjaWork *w, size_t bytes) {
    size_t cost = 1 + bytes / STEP_BYTES;
    if (cost > w->steps) work_fail(w, "it takes more than %d steps", STEPS);
    w->steps -= cost;
}

void work_enter(JinjaWork *w) {
    if (++w->depth > DEEPEST) work_fail(w, "it is nested more than %d deep", DEEPEST);
}

void work_fail(JinjaWork *w, const char *fmt, ...) {
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    err_set(w->err, "the chat template, line %d: %s", w->line, why);
    longjmp(w->out, 1);
}

void work_raise(JinjaWork *w, const char *words, size_t n) {
    err_set(w->err, "%.*s", (int)MIN(n, sizeof w->err->msg), words);
    longjmp(w->out, 1);
}

/* ---- texts ---- */

MarkedText text_of(JinjaWork *w, const char *data, size_t n, char mark) {
    if (n >= w->marks[(int)mark].n) {
        size_t more = MAX(2 * n, 1024);
        w->marks[(int)mark].data = memset(work_take(w, more), mark, more);
        w->marks[(int)mark].n = more;
    }
    return (MarkedText){data, w->marks[(int)mark].data, n};
}

MarkedText text_word(JinjaWork *w, const char *word) { return text_of(w, word, strlen(word), MARK_TEMPLATE); }

MarkedText text_cut(MarkedText t, size_t from, size_t to) {
    return (MarkedText){t.data + from, t.marks + from, to - from};
}

bool text_is(MarkedText t, const char *word) { return t.n == strlen(word) && !memcmp(t.data, word, t.n); }

bool text_same(MarkedText a, MarkedText b) { return a.n == b.n && !memcmp(a.data, b.data, a.n); }

size_t text_find(JinjaWork *w, MarkedText t, size_t from, MarkedText what) {
    work_step(w, t.n - from);
    const char *at = memmem(t.data + from, t.n - from, what.data, what.n);
    return at ? (size_t)(at - t.data) : t.n + 1;
}

/* ---- lists, dicts, scopes ---- */

void list_push(JinjaWork *w, Value *list, Value v) {
    list->items = work_grow(w, list->items, list->n, &list->capacity, sizeof v);
    list->items[list->n++] = v;
}

Value list_of(JinjaWork *w, Value v) {
    Value all = value_list();
    if (value_is_list(v)) return v;
    if (v.kind == VALUE_TEXT)
        for (size_t at = 0, n; at < v.text.n; at += n) {
            work_step(w, 0);
            utf8_next(v.text.data + at, v.text.n - at, &n);
            list_push(w, &all, value_text(text_cut(v.text, at, at + n)));
        }
    else if (v.kind == VALUE_DICT)
        for (size_t i = 0; i < v.dict->n; i++) list_push(w, &all, value_text(v.dict->pairs[i].key));
    else if (!value_is_missing(v))
        work_fail(w, "%s cannot be run through", value_kind_name(v));
    return all;
}

Value dict_new(JinjaWork *w, ValueKind kind) { return (Value){.kind = kind, .dict = work_take(w, sizeof(Dict))}; }

enum { LONG_KEY = 64 }; /* shorter ones are paid for by the place */

Value *dict_at(JinjaWork *w, const Dict *d, MarkedText key) {
    work_step(w, 16 * d->n);
    for (size_t i = 0; i < d->n; i++) {
        if (key.n > LONG_KEY && d->pairs[i].key.n == key.n) work_step(w, key.n);
        if (text_same(d->pairs[i].key, key)) return &d->pairs[i].value;
    }
    return NULL;
}

static void dict_add(JinjaWork *w, Dict *d, MarkedText key, Value v) {
    d->pairs = work_grow(w, d->pairs, d->n, &d->capacity, sizeof *d->pairs);
    d->pairs[d->n].key = key;
    d->pairs[d->n++].value = v;
}

void dict_put(JinjaWork *w, Dict *d, MarkedText key, Value v) {
    Value *at = dict_at(w, d, key);
    if (at)
        *at = v;
    else
        dict_add(w, d, key, v);
}

Scope *scope_new(JinjaWork *w, const Scope *around) {
    Scope *s = work_take(w, sizeof *s);
    s->around = around;
    return s;
}

const Value *scope_find(JinjaWork *w, const Scope *s, MarkedText name) {
    const Value *v = NULL;
    for (; s && !v; s = s->around) v = dict_at(w, &s->names, name);
    return v;
}

/* ---- making values ---- */

Value value_undefined(JinjaWork *w, const char *fmt, ...) {
    char why[120];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    size_t n = strlen(why) + 1;
    return (Value){.kind = VALUE_UNDEFINED, .text.data = memcpy(work_take(w, n), why, n), .text.n = n - 1};
}

/* No key comes twice. */
Value value_of_json(JinjaWork *w, const cJSON *json, char mark) {
    const cJSON *item;
    Value v = {.kind = VALUE_NONE, .mark = mark};
    work_step(w, 0);
    if (cJSON_IsString(json)) {
        v = value_text(text_of(w, json->valuestring, strlen(json->valuestring), mark));
    } else if (cJSON_IsNumber(json)) {
        v.kind = json_int64(json, &v.integer) ? VALUE_INTEGER : VALUE_FLOAT;
        if (v.kind == VALUE_FLOAT) v.number = json->valuedouble;
    } else if (cJSON_IsBool(json)) {
        v = (Value){VALUE_BOOLEAN, mark, .integer = cJSON_IsTrue(json)};
    } else if (cJSON_IsArray(json)) {
        v = value_list();
        cJSON_ArrayForEach(item, json) { list_push(w, &v, value_of_json(w, item, mark)); }
    } else if (cJSON_IsObject(json)) {
        v = dict_new(w, VALUE_DICT);
        cJSON_ArrayForEach(item, json) {
            dict_add(w, v.dict, text_of(w, item->string, strlen(item->string), mark), value_of_json(w, item, mark));
        }
    }
    return v;
}

/* ---- asking them ---- */

const char *value_kind_name(Value v) {
    static const char *const names[] = {"nothing",     "an undefined value",
                                        "none",        "a boolean",
                                        "an integer",  "a float",
                                        "a string",    "a list",
                                        "a tuple",     "a dict",
                                        "a namespace", "a loop",
                                        "a function",  "a macro"};
    return names[v.kind];
}

bool value_true(Value v) {
    switch (v.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOLEAN:
    case VALUE_INTEGER:
        return v.integer != 0;
    case VALUE_FLOAT:
        return v.number != 0;
    case VALUE_TEXT:
        return v.text.n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return v.n > 0;
    case VALUE_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

double value_number(Value v) { return v.kind == VALUE_FLOAT ? v.number : (double)v.integer; }

/* What has parts, of one kind. */
static bool equal_parts(JinjaWork *w, Value a, Value b) {
    bool dicts = a.kind == VALUE_DICT, same = dicts ? a.dict->n == b.dict->n : a.n == b.n;
    for (size_t i = 0; same && i < (dicts ? a.dict->n : a.n); i++) {
        const Value *other = dicts ? dict_at(w, b.dict, a.dict->pairs[i].key) : &b.items[i];
        same = other && value_equal(w, dicts ? a.dict->pairs[i].value : a.items[i], *other);
    }
    return same;
}

bool value_equal(JinjaWork *w, Value a, Value b) {
    work_step(w, a.kind == VALUE_TEXT ? a.text.n : 0);
    if (value_is_number(a) && value_is_number(b))
        return a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT ? value_number(a) == value_number(b)
                                                              : a.integer == b.integer;
    if (a.kind != b.kind) return value_is_missing(a) && value_is_missing(b);
    if (a.kind == VALUE_TEXT) return text_same(a.text, b.text);
    if (a.kind <= VALUE_NONE) return true;
    if (!value_is_list(a) && a.kind != VALUE_DICT) return a.dict == b.dict; /* the same object */
    work_enter(w);
    bool same = equal_parts(w, a, b);
    w->depth--;
    return same;
}

int value_order(JinjaWork *w, Value a, Value b) {
    work_step(w, a.kind == VALUE_TEXT ? a.text.n : 0);
    if (value_is_number(a) && value_is_number(b)) {
        if (a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT) return (a.integer > b.integer) - (a.integer < b.integer);
        return (value_number(a) > value_number(b)) - (value_number(a) < value_number(b));
    }
    value_defined(w, a);
    value_defined(w, b);
    if (a.kind != VALUE_TEXT || b.kind != VALUE_TEXT)
        work_fail(w, "%s and %s have no order", value_kind_name(a), value_kind_name(b));
    int order = memcmp(a.text.data, b.text.data, MIN(a.text.n, b.text.n));
    return order ? order : (a.text.n > b.text.n) - (a.text.n < b.text.n);
}

bool value_in(JinjaWork *w, Value item, Value container) {
    if (container.kind == VALUE_TEXT)
        return text_find(w, container.text, 0, value_string(w, item, "what is looked for in a string")) <=
               container.text.n;
    if (container.kind == VALUE_DICT) return item.kind == VALUE_TEXT && dict_at(w, container.dict, item.text);
    Value all = list_of(w, container);
    for (size_t i = 0; i < all.n; i++)
        if (value_equal(w, all.items[i], item)) return true;
    return false;
}

size_t value_length(JinjaWork *w, Value v) {
    if (v.kind == VALUE_TEXT) {
        work_step(w, v.text.n);
        return utf8_count(v.text.data, v.text.n);
    }
    if (value_is_list(v)) return v.n;
    if (v.kind == VALUE_DICT) return v.dict->n;
    if (!value_is_missing(v)) work_fail(w, "%s has no length", value_kind_name(v));
    return 0;
}

Value value_defined(JinjaWork *w, Value v) {
    if (v.kind == VALUE_UNDEFINED) work_fail(w, "%s", v.text.data);
    return v;
}

int64_t value_integer(JinjaWork *w, Value v, const char *what) {
    if (v.kind != VALUE_INTEGER && v.kind != VALUE_BOOLEAN)
        work_fail(w, "%s is %s, not an integer", what, value_kind_name(v));
    return v.integer;
}

MarkedText value_string(JinjaWork *w, Value v, const char *what) {
    if (value_defined(w, v).kind != VALUE_TEXT) work_fail(w, "%s is %s, not a string", what, value_kind_name(v));
    return v.text;
}
