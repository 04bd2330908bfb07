#include "tokenizer/jinja/evaluate.h"

#include "base/err.h"
#include "tokenizer/jinja/parts.h"
#include "tokenizer/jinja/text.h"

/* ---- names and attributes ---- */

static Value function_of(JinjaWork *w, const Builtin *b, Value self) {
    Function *f = work_take(w, sizeof *f);
    *f = (Function){b, self};
    return (Value){.kind = VALUE_FUNCTION, .function = f};
}

static Value variable(JinjaWork *w, const Scope *s, MarkedText name) {
    const Value *v = scope_find(w, s, name);
    const Builtin *b = v ? NULL : builtin_named(jinja_functions, name, 0);
    if (v) return *v;
    return b ? function_of(w, b, (Value){0}) : value_undefined(w, "'%.*s' is undefined", SHOWN(name));
}

static Value loop_attribute(JinjaWork *w, const Loop *l, MarkedText name) {
    const int64_t at = (int64_t)l->at, n = (int64_t)l->all.n;
    const struct {
        const char *name;
        Value value;
    } all[] = {{"index", value_int(at + 1)},        {"index0", value_int(at)}, {"first", value_bool(at == 0)},
               {"last", value_bool(at + 1 == n)},   {"length", value_int(n)},  {"revindex", value_int(n - at)},
               {"revindex0", value_int(n - at - 1)}};
    for (size_t i = 0; i < COUNTOF(all); i++)
        if (text_is(name, all[i].name)) return all[i].value;
    if (text_is(name, "previtem") && at > 0) return l->all.items[at - 1];
    if (text_is(name, "nextitem") && at + 1 < n) return l->all.items[at + 1];
    return value_undefined(w, "the loop has no %.*s", SHOWN(name));
}

/* v.name: a method comes before a key of that name. */
static Value attribute(JinjaWork *w, Value v, MarkedText name) {
    const Builtin *method = builtin_named(jinja_methods, name, 1u << v.kind);
    if (method) return function_of(w, method, v);
    return v.kind == VALUE_LOOP ? loop_attribute(w, v.loop, name) : value_item(w, v, value_text(name));
}

/* v[key]: a key comes before a method of that name. */
static Value item(JinjaWork *w, Value v, Value key) {
    Value at = value_item(w, v, key);
    return value_is_missing(at) && key.kind == VALUE_TEXT ? attribute(w, v, key.text) : at;
}

/* ---- calls ---- */

static Arguments arguments_of(JinjaWork *w, Scope *s, const Node *list) {
    Arguments given = {value_list(), {0}};
    for (; list; list = list->next)
        if (list->kind == NODE_ARGUMENT) {
            dict_put(w, &given.named, list->name, node_value(w, s, list->a));
        } else if (list->kind == NODE_SEVERAL) {
            Value several = list_of(w, node_value(w, s, list->a));
            for (size_t i = 0; i < several.n; i++) list_push(w, &given.values, several.items[i]);
        } else {
            list_push(w, &given.values, node_value(w, s, list));
        }
    return given;
}

static Value macro_call(JinjaWork *w, const Macro *m, Arguments *given) {
    Scope *s = scope_new(w, m->scope);
    size_t i = 0;
    for (const Node *p = m->node->otherwise; p; p = p->next, i++) {
        Value v = argument_take(w, m->node->name, given, i, p->name);
        if (v.kind == VALUE_ABSENT)
            v = p->a ? node_value(w, s, p->a) : value_undefined(w, "parameter '%.*s' was not provided", SHOWN(p->name));
        dict_put(w, &s->names, p->name, v);
    }
    arguments_end(w, m->node->name, given, i);
    return value_text(m->written(w, s, m->node->list));
}

static Value call(JinjaWork *w, Scope *s, const Node *call) {
    Value f = value_defined(w, node_value(w, s, call->a));
    Arguments given = arguments_of(w, s, call->list);
    w->line = call->line;
    if (f.kind == VALUE_MACRO) return macro_call(w, f.macro, &given);
    if (f.kind != VALUE_FUNCTION) work_fail(w, "%s cannot be called", value_kind_name(f));
    return builtin_call(w, f.function->builtin, f.function->self, &given);
}

static Value apply(JinjaWork *w, Scope *s, const Node *n, Value self) {
    Arguments given = arguments_of(w, s, n->list);
    w->line = n->line;
    return builtin_call(w, n->builtin, self, &given);
}

/* ---- expressions of several ---- */

/* Of "and" and "or" the second operand may not be asked for. */
static Value operation(JinjaWork *w, Scope *s, const Node *n) {
    Value a = node_value(w, s, n->a);
    if (n->op <= OP_AND && value_true(a) == (n->op == OP_OR)) return a;
    Value b = node_value(w, s, n->b);
    w->line = n->line;
    return n->op <= OP_AND ? b : operate(w, n->op, a, b);
}

static Value elements(JinjaWork *w, Scope *s, const Node *n) {
    Value all = {.kind = n->kind == NODE_LIST ? VALUE_LIST : VALUE_TUPLE};
    for (const Node *e = n->list; e; e = e->next) list_push(w, &all, node_value(w, s, e));
    return all;
}

static Value pairs(JinjaWork *w, Scope *s, const Node *n) {
    Value dict = dict_new(w, VALUE_DICT);
    for (const Node *key = n->list; key; key = key->next->next) {
        MarkedText name = value_string(w, node_value(w, s, key), "a key");
        dict_put(w, dict.dict, name, node_value(w, s, key->next));
    }
    return dict;
}

static Value slice(JinjaWork *w, Scope *s, const Node *n, Value of) {
    const Node *const parts[] = {n->b, n->c, n->list};
    Value bounds[3];
    for (int i = 0; i < 3; i++) bounds[i] = parts[i] ? node_value(w, s, parts[i]) : value_none();
    return value_slice(w, of, bounds);
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
        return attribute(w, node_value(w, s, n->a), n->name);
    case NODE_ITEM:
        a = node_value(w, s, n->a);
        return item(w, a, node_value(w, s, n->b));
    case NODE_SLICE:
        return slice(w, s, n, node_value(w, s, n->a));
    case NODE_CALL:
        return call(w, s, n);
    case NODE_BUILTIN:
        return apply(w, s, n, node_value(w, s, n->a));
    case NODE_NOT:
        return value_bool(!value_true(node_value(w, s, n->a)));
    case NODE_NEGATIVE:
        return operate(w, OP_MULTIPLY, value_int(-1), node_value(w, s, n->a));
    case NODE_BINARY:
        return operation(w, s, n);
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
