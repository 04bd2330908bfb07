#include "base/err.h"
#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/text.h"

/* One of these kinds. */
static Value is_kind(Value v, unsigned kinds) { return value_bool(kinds >> v.kind & 1); }
enum {
    K_MISSING = 1 << VALUE_ABSENT | 1 << VALUE_UNDEFINED,
    K_LISTS = 1 << VALUE_LIST | 1 << VALUE_TUPLE | 1 << VALUE_DICT | 1 << VALUE_TEXT | K_MISSING,
    K_NUMBERS = 1 << VALUE_BOOLEAN | 1 << VALUE_INTEGER | 1 << VALUE_FLOAT,
    K_CALLS = 1 << VALUE_FUNCTION | 1 << VALUE_MACRO
};

#define TEST_OF(name, result)                                                                                          \
    static Value name(JinjaWork *w, Value v, const Value *a) { return (void)w, (void)a, result; }
TEST_OF(boolean, is_kind(v, 1 << VALUE_BOOLEAN))
TEST_OF(callable, is_kind(v, K_CALLS))
TEST_OF(defined, is_kind(v, ~(unsigned)K_MISSING))
TEST_OF(undefined, is_kind(v, K_MISSING))
TEST_OF(none, is_kind(v, 1 << VALUE_NONE))
TEST_OF(number, is_kind(v, K_NUMBERS))
TEST_OF(integer, is_kind(v, 1 << VALUE_INTEGER))
TEST_OF(real, is_kind(v, 1 << VALUE_FLOAT))
TEST_OF(string, is_kind(v, 1 << VALUE_TEXT))
TEST_OF(mapping, is_kind(v, 1 << VALUE_DICT))
TEST_OF(sequence, is_kind(v, K_LISTS))
TEST_OF(truth, value_bool(v.kind == VALUE_BOOLEAN && v.integer))
TEST_OF(falsehood, value_bool(v.kind == VALUE_BOOLEAN && !v.integer))
TEST_OF(odd, value_bool(value_integer(w, v, "what may be odd") & 1))
TEST_OF(even, value_bool(!(value_integer(w, v, "what may be even") & 1)))
TEST_OF(equal, value_bool(value_equal(w, v, a[0])))
TEST_OF(unequal, value_bool(!value_equal(w, v, a[0])))
TEST_OF(same, value_bool(v.kind == a[0].kind && value_equal(w, v, a[0])))
TEST_OF(less, value_bool(value_order(w, v, a[0]) < 0))
TEST_OF(at_most, value_bool(value_order(w, v, a[0]) <= 0))
TEST_OF(greater, value_bool(value_order(w, v, a[0]) > 0))
TEST_OF(at_least, value_bool(value_order(w, v, a[0]) >= 0))
TEST_OF(inside, value_bool(value_in(w, v, a[0])))
TEST_OF(in_lower,
        value_bool(value_equal(w, value_text(text_str(w, v)), value_text(text_case(w, text_str(w, v), CASE_LOWER)))))
TEST_OF(in_upper,
        value_bool(value_equal(w, value_text(text_str(w, v)), value_text(text_case(w, text_str(w, v), CASE_UPPER)))))

static Value divisible(JinjaWork *w, Value v, const Value *a) {
    int64_t by = value_integer(w, a[0], "a divisor"), x = value_integer(w, v, "what may be divisible");
    if (by == 0) work_fail(w, "division by zero");
    if (by == -1) return value_bool(true); /* whatever it is of, and INT64_MIN % -1 traps */
    return value_bool(x % by == 0);
}

static const Builtin tests[] = {
    {"!=", unequal, "other!", 0},
    {"<", less, "other!", 0},
    {"<=", at_most, "other!", 0},
    {"==", equal, "other!", 0},
    {">", greater, "other!", 0},
    {">=", at_least, "other!", 0},
    {"boolean", boolean, "", 0},
    {"callable", callable, "", 0},
    {"defined", defined, "", 0},
    {"divisibleby", divisible, "num!", 0},
    {"eq", equal, "other!", 0},
    {"equalto", equal, "other!", 0},
    {"even", even, "", 0},
    {"false", falsehood, "", 0},
    {"float", real, "", 0},
    {"ge", at_least, "other!", 0},
    {"greaterthan", greater, "other!", 0},
    {"gt", greater, "other!", 0},
    {"in", inside, "seq!", 0},
    {"integer", integer, "", 0},
    {"iterable", sequence, "", 0},
    {"le", at_most, "other!", 0},
    {"lessthan", less, "other!", 0},
    {"lower", in_lower, "", 0},
    {"lt", less, "other!", 0},
    {"mapping", mapping, "", 0},
    {"ne", unequal, "other!", 0},
    {"none", none, "", 0},
    {"number", number, "", 0},
    {"odd", odd, "", 0},
    {"sameas", same, "other!", 0},
    {"sequence", sequence, "", 0},
    {"string", string, "", 0},
    {"true", truth, "", 0},
    {"undefined", undefined, "", 0},
    {"upper", in_upper, "", 0},
};

const Builtin *test_named(MarkedText name) {
    for (size_t i = 0; i < COUNTOF(tests); i++)
        if (text_is(name, tests[i].name)) return &tests[i];
    return NULL;
}
