#include "tokenizer/jinja/builtin.h"

enum {
    MISSING = 1 << VALUE_ABSENT | 1 << VALUE_UNDEFINED,
    BOOLEANS = 1 << VALUE_BOOLEAN,
    NUMBERS = BOOLEANS | 1 << VALUE_INTEGER | 1 << VALUE_FLOAT,
    SEQUENCES = 1 << VALUE_LIST | 1 << VALUE_TUPLE | 1 << VALUE_DICT | 1 << VALUE_TEXT | MISSING
};

#define TEST_OF(name, result)                                                                                          \
    static Value name(JinjaWork *w, Value v, const Value *a) { return (void)w, (void)a, value_bool(result); }
TEST_OF(truth, v.kind == VALUE_BOOLEAN && v.integer)
TEST_OF(falsehood, v.kind == VALUE_BOOLEAN && !v.integer)
TEST_OF(odd, value_integer(w, v, "what may be odd") & 1)
TEST_OF(even, !(value_integer(w, v, "what may be even") & 1))
TEST_OF(equal, value_equal(w, v, a[0]))
TEST_OF(unequal, !value_equal(w, v, a[0]))
TEST_OF(same, v.kind == a[0].kind && value_equal(w, v, a[0]))
TEST_OF(less, value_order(w, v, a[0]) < 0)
TEST_OF(at_most, value_order(w, v, a[0]) <= 0)
TEST_OF(greater, value_order(w, v, a[0]) > 0)
TEST_OF(at_least, value_order(w, v, a[0]) >= 0)
TEST_OF(inside, value_in(w, v, a[0]))

const Builtin jinja_tests[] = {
    {"==", equal, "other!", 0},
    {"boolean", NULL, "", BOOLEANS},
    {"defined", NULL, "", ~(unsigned)MISSING},
    {"eq", equal, "other!", 0},
    {"equalto", equal, "other!", 0},
    {"even", even, "", 0},
    {"false", falsehood, "", 0},
    {"float", NULL, "", 1 << VALUE_FLOAT},
    {"ge", at_least, "other!", 0},
    {"gt", greater, "other!", 0},
    {"in", inside, "seq!", 0},
    {"integer", NULL, "", 1 << VALUE_INTEGER},
    {"iterable", NULL, "", SEQUENCES},
    {"le", at_most, "other!", 0},
    {"lt", less, "other!", 0},
    {"mapping", NULL, "", 1 << VALUE_DICT},
    {"ne", unequal, "other!", 0},
    {"none", NULL, "", 1 << VALUE_NONE},
    {"number", NULL, "", NUMBERS},
    {"odd", odd, "", 0},
    {"sameas", same, "other!", 0},
    {"sequence", NULL, "", SEQUENCES},
    {"string", NULL, "", 1 << VALUE_TEXT},
    {"true", truth, "", 0},
    {"undefined", NULL, "", MISSING},
    {NULL, NULL, NULL, 0},
};
