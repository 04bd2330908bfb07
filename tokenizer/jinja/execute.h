/* execute: a template's statements, run. */
#ifndef NOISED_JINJA_EXECUTE_H
#define NOISED_JINJA_EXECUTE_H

#include "tokenizer/jinja/node.h"

MarkedText nodes_written(JinjaWork *w, Scope *s, const Node *list); /* by these statements */

#endif
