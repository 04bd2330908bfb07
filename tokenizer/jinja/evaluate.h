/* evaluate: the value of an expression. */
#ifndef NOISED_JINJA_EVALUATE_H
#define NOISED_JINJA_EVALUATE_H

#include "tokenizer/jinja/node.h"

typedef struct Macro {
    const Node *node;                                                /* parameters in `otherwise`, the body in `list` */
    const Scope *scope;                                              /* where it stands */
    MarkedText (*written)(JinjaWork *w, Scope *s, const Node *list); /* by its body */
} Macro;

Value node_value(JinjaWork *w, Scope *s, const Node *n);

#endif
