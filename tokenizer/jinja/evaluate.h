/* evaluate: a template's tree, run (evaluate.c, execute.c). */
#ifndef NOISED_JINJA_EVALUATE_H
#define NOISED_JINJA_EVALUATE_H

#include "tokenizer/jinja/node.h"
#include "tokenizer/jinja/text.h"

/* Variables, and behind them those of the scope around. */
typedef struct Scope {
    const struct Scope *around;
    struct Variable {
        MarkedText name;
        Value value;
        struct Variable *next;
    } * first;
} Scope;

Scope *scope_new(JinjaWork *w, const Scope *around);
void scope_set(JinjaWork *w, Scope *s, MarkedText name, Value v);
const Value *scope_find(const Scope *s, MarkedText name); /* NULL: none */

typedef struct Macro {
    const Node *node; /* parameters in `otherwise`, the body in `list` */
    const Scope *scope;
} Macro;

Value node_value(JinjaWork *w, Scope *s, const Node *n);

typedef enum Flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } Flow;
Flow nodes_run(JinjaWork *w, Scope *s, const Node *list);
MarkedText nodes_written(JinjaWork *w, Scope *s, const Node *list); /* by these statements */

#endif
