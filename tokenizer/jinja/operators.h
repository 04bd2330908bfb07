/* operators: what stands between two operands, and makes one value of them. */
#ifndef NOISED_JINJA_OPERATORS_H
#define NOISED_JINJA_OPERATORS_H

#include "tokenizer/jinja/value.h"

typedef enum Operator {
    OP_OR,
    OP_AND,
    OP_NOT_IN,
    OP_IN,
    OP_EQUAL,
    OP_UNEQUAL,
    OP_AT_MOST,
    OP_AT_LEAST,
    OP_LESS,
    OP_GREATER,
    OP_ADD,
    OP_SUBTRACT,
    OP_JOIN, /* as texts: "~" */
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR, /* "//" */
    OP_MODULO
} Operator;

/* Not of OP_OR and OP_AND, whose second operand may be left alone. Integers are of 64 bits: the work fails beyond. */
Value operate(JinjaWork *w, Operator op, Value a, Value b);

#endif
