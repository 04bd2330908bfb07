#include "tokenizer/jinja/operators.h"

#include "base/err.h"
#include "tokenizer/jinja/text.h"

#include <math.h>

static Value join_lists(JinjaWork *w, Value a, Value b) {
    Value all = {.kind = a.kind};
    work_step(w, 32 * (a.n + b.n));
    for (size_t i = 0; i < a.n; i++) list_push(w, &all, a.items[i]);
    for (size_t i = 0; i < b.n; i++) list_push(w, &all, b.items[i]);
    return all;
}

static Value repeat(JinjaWork *w, MarkedText t, int64_t times) {
    Builder b = {0};
    for (int64_t i = 0; i < times; i++) build(w, &b, t);
    return value_text(built(&b));
}

static int64_t whole_number(JinjaWork *w, Operator op, int64_t a, int64_t b) {
    int64_t r = 0, quotient;
    bool over = op == OP_ADD        ? __builtin_add_overflow(a, b, &r)
                : op == OP_SUBTRACT ? __builtin_sub_overflow(a, b, &r)
                : op == OP_MULTIPLY ? __builtin_mul_overflow(a, b, &r)
                                    : a == INT64_MIN && b == -1;
    if (over) work_fail(w, "a number beyond 64 bits");
    if (op != OP_FLOOR && op != OP_MODULO) return r;
    if (b == 0) work_fail(w, "division by zero");
    quotient = a / b - (a % b && (a < 0) != (b < 0)); /* towards minus infinity */
    return op == OP_FLOOR ? quotient : a - quotient * b;
}

static double real_number(JinjaWork *w, Operator op, double a, double b) {
    if (op == OP_ADD) return a + b;
    if (op == OP_SUBTRACT) return a - b;
    if (op == OP_MULTIPLY) return a * b;
    if (b == 0) work_fail(w, "division by zero");
    return op == OP_DIVIDE ? a / b : op == OP_FLOOR ? floor(a / b) : a - b * floor(a / b);
}

static Value number(JinjaWork *w, Operator op, Value a, Value b) {
    value_defined(w, a);
    value_defined(w, b);
    if (!value_is_number(a) || !value_is_number(b))
        work_fail(w, "%s and %s cannot be %s", value_kind_name(a), value_kind_name(b),
                  op == OP_ADD ? "added" : "computed with");
    bool whole = a.kind != VALUE_FLOAT && b.kind != VALUE_FLOAT && op != OP_DIVIDE;
    Value v = whole ? value_int(whole_number(w, op, a.integer, b.integer))
                    : value_float(real_number(w, op, value_number(a), value_number(b)));
    v.mark = (char)MAX(a.mark, b.mark);
    return v;
}

Value operate(JinjaWork *w, Operator op, Value a, Value b) {
    switch (op) {
    case OP_IN:
    case OP_NOT_IN:
        return value_bool(value_in(w, a, b) == (op == OP_IN));
    case OP_EQUAL:
    case OP_UNEQUAL:
        return value_bool(value_equal(w, a, b) == (op == OP_EQUAL));
    case OP_LESS:
    case OP_AT_LEAST:
        return value_bool((value_order(w, a, b) < 0) == (op == OP_LESS));
    case OP_GREATER:
    case OP_AT_MOST:
        return value_bool((value_order(w, a, b) > 0) == (op == OP_GREATER));
    case OP_JOIN:
        return value_text(text_joined(w, text_str(w, a), text_str(w, b)));
    default:
        if (op == OP_ADD && a.kind == VALUE_TEXT && b.kind == VALUE_TEXT)
            return value_text(text_joined(w, a.text, b.text));
        if (op == OP_ADD && value_is_list(a) && a.kind == b.kind) return join_lists(w, a, b);
        if (op == OP_MULTIPLY && a.kind == VALUE_TEXT) return repeat(w, a.text, value_integer(w, b, "how many times"));
        return number(w, op, a, b);
    }
}
