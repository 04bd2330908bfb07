#include "tokenizer/jinja/evaluate.h"

#include "base/fixed_math.h"

#include <math.h>
#include <string.h>

/* ---- scopes ---- */

Scope *scope_new(JinjaWork *w, const Scope *around) {
    Scope *s = work_take(w, sizeof *s);
    s->around = around;
    return s;
}

static struct Variable *find_here(const Scope *s, MarkedText name) {
    struct Variable *v = s->first;
    while (v && (v->name.n != name.n || memcmp(v->name.data, name.data, name.n))) v = v->next;
    return v;
}

void scope_set(JinjaWork *w, Scope *s, MarkedText name, Value v) {
    struct Variable *at = find_here(s, name);
    if (!at) {
        at = work_take(w, sizeof *at);
        at->name = name;
        at->next = s->first;
        s->first = at;
    }
    at->value = v;
}

const Value *scope_find(const Scope *s, MarkedText name) {
    for (; s; s = s->around) {
        struct Variable *v = find_here(s, name);
        if (v) return &v->value;
    }
    return NULL;
}

static Value variable(JinjaWork *w, const Scope *s, MarkedText name) {
    const Value *v = scope_find(s, name);
    const Builtin *b = v ? NULL : function_named(name);
    if (v) return *v;
    if (!b) return value_undefined(w, "'%.*s' is undefined", (int)MIN(name.n, 80), name.data);
    Function *f = work_take(w, sizeof *f);
    f->builtin = b;
    return (Value){.kind = VALUE_FUNCTION, .function = f};
}

/* ---- calls ---- */

static Arguments arguments_of(JinjaWork *w, Scope *s, const Node *list) {
    Items values = {0};
    Dict *named = NULL;
    for (; list; list = list->next)
        if (list->kind == NODE_ARGUMENT) {
            if (!named) named = dict_new(w, VALUE_DICT).dict;
            dict_put(w, named, value_text(list->name), node_value(w, s, list->a));
        } else if (list->kind == NODE_SEVERAL) {
            Items several = items_of(w, node_value(w, s, list->a));
            for (size_t i = 0; i < several.n; i++) items_push(w, &values, several.items[i]);
        } else {
            items_push(w, &values, node_value(w, s, list));
        }
    return (Arguments){values.items, values.n, named};
}

static bool is_parameter(const Node *n, MarkedText name) {
    while (n && (n->name.n != name.n || memcmp(n->name.data, name.data, name.n))) n = n->next;
    return n;
}

static Value macro_call(JinjaWork *w, const Macro *m, const Arguments *given) {
    Scope *s = scope_new(w, m->scope);
    size_t i = 0;
    for (const Node *p = m->node->otherwise; p; p = p->next, i++) {
        const Value *named = given->named ? dict_at(given->named, p->name) : NULL;
        if (i < given->n && named) work_fail(w, "the argument %.*s is given twice", (int)p->name.n, p->name.data);
        scope_set(w, s, p->name,
                  i < given->n ? given->values[i]
                  : named      ? *named
                  : p->a       ? node_value(w, s, p->a)
                               : value_undefined(w, "parameter '%.*s' was not provided", (int)p->name.n, p->name.data));
    }
    if (given->n > i) work_fail(w, "a macro of %zu arguments is given %zu", i, given->n);
    for (size_t k = 0; given->named && k < given->named->n; k++) {
        MarkedText name = given->named->pairs[k].key.text;
        if (!is_parameter(m->node->otherwise, name))
            work_fail(w, "a macro has no argument %.*s", (int)name.n, name.data);
    }
    return value_text(nodes_written(w, s, m->node->list));
}

static Value call(JinjaWork *w, Scope *s, const Node *call) {
    Value f = node_value(w, s, call->a);
    Arguments given = arguments_of(w, s, call->list);
    w->line = call->line;
    if (f.kind == VALUE_MACRO) return macro_call(w, f.macro, &given);
    if (f.kind == VALUE_UNDEFINED) work_fail(w, "%s", f.text.data);
    if (f.kind != VALUE_FUNCTION) work_fail(w, "%s cannot be called", value_kind_name(f));
    return builtin_call(w, f.function->builtin, f.function->self, &given);
}

static Value apply(JinjaWork *w, Scope *s, const Node *n, Value self) {
    Arguments given = arguments_of(w, s, n->list);
    w->line = n->line;
    return builtin_call(w, n->builtin, self, &given);
}

/* ---- operators ---- */

static _Noreturn void fail_operands(JinjaWork *w, const char *what, Value a, Value b) {
    if (a.kind == VALUE_UNDEFINED) work_fail(w, "%s", a.text.data);
    if (b.kind == VALUE_UNDEFINED) work_fail(w, "%s", b.text.data);
    work_fail(w, "%s and %s cannot be %s", value_kind_name(a), value_kind_name(b), what);
}

static Value join_lists(JinjaWork *w, Value a, Value b) {
    Items all = {0};
    work_step(w, 32 * (a.list.n + b.list.n));
    for (size_t i = 0; i < a.list.n; i++) items_push(w, &all, a.list.items[i]);
    for (size_t i = 0; i < b.list.n; i++) items_push(w, &all, b.list.items[i]);
    return items_value(&all, a.kind);
}

static Value join_texts(JinjaWork *w, MarkedText a, MarkedText b) {
    Builder all = {0};
    build(w, &all, a);
    build(w, &all, b);
    return value_text(built(&all));
}

static Value repeat(JinjaWork *w, Value v, int64_t times) {
    Builder text = {0};
    Items all = {0};
    for (int64_t i = 0; i < times; i++) {
        work_step(w, 0);
        if (v.kind == VALUE_TEXT) build(w, &text, v.text);
        for (size_t k = 0; v.kind != VALUE_TEXT && k < v.list.n; k++) items_push(w, &all, v.list.items[k]);
    }
    return v.kind == VALUE_TEXT ? value_text(built(&text)) : items_value(&all, v.kind);
}

static Value whole_number(JinjaWork *w, int op, int64_t a, int64_t b) {
    int64_t r = 0, quotient;
    bool over = false;
    if (op == '+') over = __builtin_add_overflow(a, b, &r);
    if (op == '-') over = __builtin_sub_overflow(a, b, &r);
    if (op == '*') over = __builtin_mul_overflow(a, b, &r);
    if (op == '%' || op == '/' + 128) {
        if (b == 0) work_fail(w, "division by zero");
        over = a == INT64_MIN && b == -1;
        quotient = over ? 0 : a / b - (a % b && (a < 0) != (b < 0)); /* towards minus infinity */
        r = op == '%' ? over ? 0 : a - quotient * b : quotient;
    }
    if (op == '*' + 128)
        for (r = 1; b > 0 && !over; b--) over = __builtin_mul_overflow(r, a, &r), work_step(w, 0);
    if (over) work_fail(w, "a number beyond 64 bits");
    return value_int(r);
}

/* What is complex is refused. */
static double power(JinjaWork *w, double a, double b) {
    if (a == 0 && b < 0) work_fail(w, "division by zero");
    if (a < 0 && b != floor(b)) work_fail(w, "a power without a real value");
    double r = fixed_pow(fabs(a), b);
    return a < 0 && 2 * floor(b / 2) != b ? -r : r;
}

static Value real_number(JinjaWork *w, int op, double a, double b) {
    if (strchr("/%", op & 127) && b == 0) work_fail(w, "division by zero");
    switch (op) {
    case '+':
        return value_float(a + b);
    case '-':
        return value_float(a - b);
    case '*':
        return value_float(a * b);
    case '/':
        return value_float(a / b);
    case '/' + 128:
        return value_float(floor(a / b));
    case '%':
        return value_float(a - b * floor(a / b));
    default:
        return value_float(power(w, a, b));
    }
}

static Value binary(JinjaWork *w, int op, Value a, Value b) {
    bool texts = a.kind == VALUE_TEXT && b.kind == VALUE_TEXT;
    if (op == '~') return join_texts(w, text_str(w, a), text_str(w, b));
    if (op == '+' && texts) return join_texts(w, a.text, b.text);
    if (op == '+' && value_is_list(a) && a.kind == b.kind) return join_lists(w, a, b);
    if (op == '*' && value_is_number(a) && a.kind != VALUE_FLOAT && !value_is_number(b)) return binary(w, op, b, a);
    if (op == '*' && (value_is_list(a) || a.kind == VALUE_TEXT) && value_is_number(b) && b.kind != VALUE_FLOAT)
        return repeat(w, a, b.integer);
    if (!value_is_number(a) || !value_is_number(b)) fail_operands(w, op == '+' ? "added" : "computed with", a, b);
    bool whole = a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT && op != '/' && !(op == '*' + 128 && b.integer < 0);
    Value v = whole ? whole_number(w, op, a.integer, b.integer) : real_number(w, op, value_number(a), value_number(b));
    v.mark = (char)MAX(a.mark, b.mark);
    return v;
}

static bool compare(JinjaWork *w, int op, Value a, Value b) {
    if (op == '=' + 128) return value_equal(w, a, b);
    if (op == '!' + 128) return !value_equal(w, a, b);
    if (op == 'i') return value_in(w, a, b);
    if (op == 'n') return !value_in(w, a, b);
    if (a.kind == VALUE_UNDEFINED || b.kind == VALUE_UNDEFINED) fail_operands(w, "compared", a, b);
    int order = value_order(w, a, b);
    return (op & 127) == '<' ? order < (op > 128) : order > -(op > 128);
}

static bool compare_all(JinjaWork *w, Scope *s, const Node *n) {
    Value left = node_value(w, s, n->a);
    for (const Node *o = n->list; o; o = o->next) {
        Value right = node_value(w, s, o->a);
        if (!compare(w, o->op, left, right)) return false;
        left = right;
    }
    return true;
}

static Value signed_number(JinjaWork *w, Value v, bool negative) {
    if (!value_is_number(v)) fail_operands(w, "negated", v, v);
    if (v.kind == VALUE_FLOAT) return value_float(negative ? -v.number : v.number);
    Value r = negative ? whole_number(w, '-', 0, v.integer) : value_int(v.integer);
    r.mark = v.mark;
    return r;
}

/* ---- parts ---- */

/* Python's: of what has n parts, from start up to, or down to, stop. */
static Value slice(JinjaWork *w, Value v, const Value bounds[3]) {
    bool given[3];
    int64_t b[3], n = (int64_t)value_length(w, v);
    for (int i = 0; i < 3; i++) {
        given[i] = !value_is_missing(bounds[i]) && bounds[i].kind != VALUE_NONE;
        b[i] = given[i] ? value_integer(w, bounds[i], "a bound of a slice") : 0;
    }
    int64_t step = given[2] ? b[2] : 1, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (step == 0) work_fail(w, "a slice with step 0");
    for (int i = 0; i < 2; i++)
        b[i] = given[i]                 ? MIN(MAX(b[i] < 0 ? MAX(b[i], -n - 1) + n : b[i], low), high)
               : (i == 0) == (step > 0) ? low
                                        : high;
    if (v.kind != VALUE_TEXT && !value_is_list(v)) work_fail(w, "%s has no slices", value_kind_name(v));
    if (step == 1 && value_is_list(v)) {
        int64_t from = MIN(b[0], n), many = MAX(b[1] - from, 0);
        Items part = {.items = (Value *)v.list.items + from, .n = (size_t)many};
        return items_value(&part, v.kind);
    }
    Items all = items_of(w, v), part = {0};
    Builder text = {0};
    for (int64_t i = b[0]; step > 0 ? i < b[1] : i > b[1]; i += step) {
        if (v.kind == VALUE_TEXT)
            build(w, &text, all.items[i].text);
        else
            items_push(w, &part, all.items[i]);
        if (step > n || step < -n) break; /* and so i does not overflow */
    }
    return v.kind == VALUE_TEXT ? value_text(built(&text)) : items_value(&part, v.kind);
}

static Value optional(JinjaWork *w, Scope *s, const Node *n) { return n ? node_value(w, s, n) : (Value){0}; }

static Value elements(JinjaWork *w, Scope *s, const Node *n) {
    Items all = {0};
    for (const Node *e = n->list; e; e = e->next) items_push(w, &all, node_value(w, s, e));
    return items_value(&all, n->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE);
}

static Value pairs(JinjaWork *w, Scope *s, const Node *n) {
    Value dict = dict_new(w, VALUE_DICT);
    for (const Node *key = n->list; key; key = key->next->next) {
        Value k = node_value(w, s, key);
        dict_put(w, dict.dict, k, node_value(w, s, key->next));
    }
    return dict;
}

/* ---- all of them ---- */

static Value evaluate_here(JinjaWork *w, Scope *s, const Node *n) {
    Value a;
    switch (n->kind) {
    case NODE_CONST:
        return n->value;
    case NODE_NAME:
        return variable(w, s, n->name);
    case NODE_LIST:
    case NODE_TUPLE:
        return elements(w, s, n);
    case NODE_DICT:
        return pairs(w, s, n);
    case NODE_ATTRIBUTE:
        return value_attribute(w, node_value(w, s, n->a), n->name);
    case NODE_ITEM:
        a = node_value(w, s, n->a);
        return value_item(w, a, node_value(w, s, n->b));
    case NODE_SLICE:
        a = node_value(w, s, n->a);
        if (a.kind == VALUE_UNDEFINED) work_fail(w, "%s", a.text.data);
        return slice(w, a, (Value[]){optional(w, s, n->b), optional(w, s, n->c), optional(w, s, n->list)});
    case NODE_CALL:
        return call(w, s, n);
    case NODE_FILTER:
    case NODE_TEST:
        a = node_value(w, s, n->a);
        return apply(w, s, n, a);
    case NODE_NOT:
        return value_bool(!value_true(node_value(w, s, n->a)));
    case NODE_NEGATIVE:
    case NODE_POSITIVE:
        return signed_number(w, node_value(w, s, n->a), n->kind == NODE_NEGATIVE);
    case NODE_AND:
    case NODE_OR:
        a = node_value(w, s, n->a);
        return value_true(a) == (n->kind == NODE_OR) ? a : node_value(w, s, n->b);
    case NODE_COMPARE:
        return value_bool(compare_all(w, s, n));
    case NODE_BINARY:
        a = node_value(w, s, n->a);
        return binary(w, n->op, a, node_value(w, s, n->b));
    case NODE_CHOICE:
        if (value_true(node_value(w, s, n->a))) return node_value(w, s, n->b);
        return n->c ? node_value(w, s, n->c) : value_undefined(w, "a choice has no else");
    default:
        work_fail(w, "an expression of no known kind");
    }
}

Value node_value(JinjaWork *w, Scope *s, const Node *n) {
    work_step(w, 0);
    work_enter(w);
    w->line = n->line;
    Value v = evaluate_here(w, s, n);
    w->depth--;
    return v;
}
