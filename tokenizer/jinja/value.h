/* value: what templates compute with, and the work that reading and running one is.
 *
 * Every byte of a text has a mark that says who wrote it, which follows it through all that is done with texts; so a
 * whole answer tells the template's own words from those of the conversation. Values are never changed once made,
 * namespaces alone are. All of them live in the memory of their JinjaWork, which is freed at once. */
#ifndef NOISED_JINJA_VALUE_H
#define NOISED_JINJA_VALUE_H

#include "base/err.h"
#include "base/json/json.h"

#include <setjmp.h>

/* ---- the work ---- */

/* One thread's. Where it cannot go on it leaves by `out`, from any depth: whoever starts it calls setjmp. */
typedef struct JinjaWork {
    jmp_buf out;
    Err *err;
    int line, depth;    /* of the template, from 1, 0 for none; of what is nested */
    size_t steps, room; /* what it may still do, and take in bytes */
    struct WorkBlock *blocks;
    struct WorkJson {
        cJSON *json;
        struct WorkJson *next;
    } * kept;
    char *at; /* free bytes of the last block */
    size_t left;
    struct {
        char *data;
        size_t n;
    } marks[3];             /* texts of one mark share these */
    struct Builder *out_to; /* what the template writes */
    struct Scope *globals;
} JinjaWork;

void work_start(JinjaWork *w, Err *err);
void work_free(JinjaWork *w);
void *work_take(JinjaWork *w, size_t n);                                             /* zeroed */
void *work_grow(JinjaWork *w, void *items, size_t n, size_t *capacity, size_t size); /* room for one more of n items */
cJSON **work_json(JinjaWork *w);            /* a place for JSON that is deleted with the work */
void work_step(JinjaWork *w, size_t bytes); /* one step, and those that so many bytes take */
void work_enter(JinjaWork *w);              /* one level deeper; w->depth-- leaves it */
void work_fail(JinjaWork *w, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
void work_raise(JinjaWork *w, const char *words, size_t n) __attribute__((noreturn)); /* the template's own error */

/* ---- values ---- */

enum { MARK_TEMPLATE, MARK_CONTENT, MARK_CUT }; /* the last: where a text is cut that is to be gone on with */

typedef struct MarkedText {
    const char *data, *marks; /* [n] */
    size_t n;
} MarkedText;
#define SHOWN(t) (int)MIN((t).n, 80), (t).data /* for %.*s */

typedef enum ValueKind {
    VALUE_ABSENT, /* an argument that is not given */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_LOOP,
    VALUE_FUNCTION,
    VALUE_MACRO
} ValueKind;

typedef struct Value Value;
struct Value {
    ValueKind kind;
    char mark; /* of what has no text but may be written as one */
    union {
        MarkedText text; /* of VALUE_UNDEFINED: why it is, with a zero behind it */
        int64_t integer; /* of VALUE_BOOLEAN too */
        double number;
        struct { /* of VALUE_LIST and VALUE_TUPLE */
            Value *items;
            size_t n, capacity;
        };
        struct Dict *dict; /* of VALUE_NAMESPACE too */
        const struct Loop *loop;
        const struct Function *function;
        const struct Macro *macro;
    };
};

typedef struct Dict {
    struct {
        MarkedText key;
        Value value;
    } * pairs;
    size_t n, capacity;
} Dict;

/* The loop that a template's body is in. */
typedef struct Loop {
    Value all; /* a list */
    size_t at;
} Loop;

/* The names that are set, and behind them those of the scope around. */
typedef struct Scope {
    const struct Scope *around;
    Dict names;
} Scope;

MarkedText text_of(JinjaWork *w, const char *data, size_t n, char mark); /* data is borrowed */
MarkedText text_word(JinjaWork *w, const char *word);                    /* the template's */
MarkedText text_cut(MarkedText t, size_t from, size_t to);               /* bytes from..to-1 */
bool text_is(MarkedText t, const char *word);
bool text_same(MarkedText a, MarkedText b);
size_t text_find(JinjaWork *w, MarkedText t, size_t from, MarkedText what); /* t.n + 1: nowhere */

static inline Value value_none(void) { return (Value){.kind = VALUE_NONE}; }
static inline Value value_bool(bool b) { return (Value){.kind = VALUE_BOOLEAN, .integer = b}; }
static inline Value value_int(int64_t i) { return (Value){.kind = VALUE_INTEGER, .integer = i}; }
static inline Value value_float(double x) { return (Value){.kind = VALUE_FLOAT, .number = x}; }
static inline Value value_text(MarkedText t) { return (Value){.kind = VALUE_TEXT, .text = t}; }
static inline Value value_list(void) { return (Value){.kind = VALUE_LIST}; } /* an empty one */
static inline bool value_is_list(Value v) { return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE; }
static inline bool value_is_missing(Value v) { return v.kind <= VALUE_UNDEFINED; }
static inline bool value_is_number(Value v) { return v.kind >= VALUE_BOOLEAN && v.kind <= VALUE_FLOAT; }
Value value_undefined(JinjaWork *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
Value value_of_json(JinjaWork *w, const cJSON *json, char mark); /* borrows the texts */

void list_push(JinjaWork *w, Value *list, Value v); /* one that is being made */
Value list_of(JinjaWork *w, Value v);               /* what a loop over v runs through */

Value dict_new(JinjaWork *w, ValueKind kind);
Value *dict_at(JinjaWork *w, const Dict *d, MarkedText key); /* NULL: none */
void dict_put(JinjaWork *w, Dict *d, MarkedText key, Value v);

Scope *scope_new(JinjaWork *w, const Scope *around);
const Value *scope_find(JinjaWork *w, const Scope *s, MarkedText name); /* NULL: none */

/* ---- asking them ---- */

const char *value_kind_name(Value v);
bool value_true(Value v);
double value_number(Value v); /* of a number */
bool value_equal(JinjaWork *w, Value a, Value b);
int value_order(JinjaWork *w, Value a, Value b); /* less than, equal to or greater than 0 */
bool value_in(JinjaWork *w, Value item, Value container);
size_t value_length(JinjaWork *w, Value v);

/* Those for which v must be something: the work fails when it is not. */
Value value_defined(JinjaWork *w, Value v);
int64_t value_integer(JinjaWork *w, Value v, const char *what);
MarkedText value_string(JinjaWork *w, Value v, const char *what);

#endif
