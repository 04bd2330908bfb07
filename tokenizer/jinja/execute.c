#include "tokenizer/jinja/execute.h"

#include "tokenizer/jinja/evaluate.h"
#include "tokenizer/jinja/text.h"

/* Where the statements behind one that has run are to go on. */
typedef enum Flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } Flow;

static Flow nodes_run(JinjaWork *w, Scope *s, const Node *list);

MarkedText nodes_written(JinjaWork *w, Scope *s, const Node *list) {
    Builder text = {0}, *before = w->out_to;
    w->out_to = &text;
    nodes_run(w, s, list);
    w->out_to = before;
    return built(&text);
}

static void assign(JinjaWork *w, Scope *s, const Node *target, Value v) {
    if (target->kind == NODE_NAME) {
        dict_put(w, &s->names, target->name, v);
    } else if (target->kind == NODE_ATTRIBUTE) {
        Value space = node_value(w, s, target->a);
        if (space.kind != VALUE_NAMESPACE) work_fail(w, "%s is no namespace", value_kind_name(space));
        dict_put(w, space.dict, target->name, v);
    } else {
        Value parts = list_of(w, v);
        size_t i = 0;
        for (const Node *t = target->list; t; t = t->next, i++)
            if (i < parts.n) assign(w, s, t, parts.items[i]);
        if (i != parts.n) work_fail(w, "%zu values for %zu names", parts.n, i);
    }
}

/* Those that the loop's condition takes. */
static Value chosen(JinjaWork *w, const Scope *s, const Node *n, Value all) {
    Value some = value_list();
    if (!n->c) return all;
    Scope *inside = scope_new(w, s);
    for (size_t i = 0; i < all.n; i++) {
        assign(w, inside, n->a, all.items[i]);
        if (value_true(node_value(w, inside, n->c))) list_push(w, &some, all.items[i]);
    }
    return some;
}

static Flow loop_over(JinjaWork *w, Scope *s, const Node *n) {
    Value all = chosen(w, s, n, list_of(w, node_value(w, s, n->b)));
    if (all.n == 0) return nodes_run(w, scope_new(w, s), n->otherwise);
    Loop *loop = work_take(w, sizeof *loop);
    loop->all = all;
    for (; loop->at < all.n; loop->at++) {
        Scope *inside = scope_new(w, s);
        dict_put(w, &inside->names, text_word(w, "loop"), (Value){.kind = VALUE_LOOP, .loop = loop});
        assign(w, inside, n->a, all.items[loop->at]);
        if (nodes_run(w, inside, n->list) == FLOW_BREAK) break;
    }
    return FLOW_ON;
}

static void set(JinjaWork *w, Scope *s, const Node *n) {
    Value v = n->b ? node_value(w, s, n->b) : value_text(nodes_written(w, scope_new(w, s), n->list));
    assign(w, s, n->a, v);
}

static void macro(JinjaWork *w, Scope *s, const Node *n) {
    Macro *m = work_take(w, sizeof *m);
    *m = (Macro){n, s, nodes_written};
    dict_put(w, &s->names, n->name, (Value){.kind = VALUE_MACRO, .macro = m});
}

static Flow execute_one(JinjaWork *w, Scope *s, const Node *n) {
    switch (n->kind) {
    case NODE_DATA:
        build(w, w->out_to, n->value.text);
        return FLOW_ON;
    case NODE_PRINT:
        build(w, w->out_to, text_str(w, node_value(w, s, n->a)));
        return FLOW_ON;
    case NODE_IF:
        return nodes_run(w, s, value_true(node_value(w, s, n->a)) ? n->list : n->otherwise);
    case NODE_FOR:
        return loop_over(w, s, n);
    case NODE_SET:
        set(w, s, n);
        return FLOW_ON;
    case NODE_MACRO:
        macro(w, s, n);
        return FLOW_ON;
    case NODE_SCOPE:
        return nodes_run(w, scope_new(w, s), n->list);
    case NODE_BREAK:
        return FLOW_BREAK;
    default:
        return FLOW_CONTINUE;
    }
}

static Flow nodes_run(JinjaWork *w, Scope *s, const Node *list) {
    Flow flow = FLOW_ON;
    work_enter(w);
    for (; list && flow == FLOW_ON; list = list->next) {
        work_step(w, 0);
        w->line = list->line;
        flow = execute_one(w, s, list);
    }
    w->depth--;
    return flow;
}
