/* builtin: the filters, tests, methods and functions of the language, each a row of a table. */
#ifndef NOISED_JINJA_BUILTIN_H
#define NOISED_JINJA_BUILTIN_H

#include "tokenizer/jinja/value.h"

/* self: what is filtered, tested or has the method. a: an argument for each of `parameters`, VALUE_ABSENT where none is
 * given. Where a name ends in a star, which is the last, it is a dict of all arguments by name. */
typedef Value BuiltinCall(JinjaWork *w, Value self, const Value *a);
typedef struct Builtin {
    const char *name;
    BuiltinCall *call;
    const char *parameters; /* "width first"; those in front that must be given end in a "!" */
    ValueKind of;           /* of methods: whose */
} Builtin;

typedef struct Function {
    const Builtin *builtin;
    Value self;
} Function;

typedef struct Arguments {
    const Value *values; /* [n] */
    size_t n;
    const Dict *named; /* NULL: none */
} Arguments;

Value builtin_call(JinjaWork *w, const Builtin *b, Value self, const Arguments *given);

/* NULL: there is none. */
const Builtin *filter_named(MarkedText name);
const Builtin *test_named(MarkedText name);
const Builtin *method_named(ValueKind of, MarkedText name);
const Builtin *function_named(MarkedText name);

/* v.name and v[key], as templates have it: keys of dicts, methods, places. VALUE_UNDEFINED when there is none. */
Value value_attribute(JinjaWork *w, Value v, MarkedText name);
Value value_item(JinjaWork *w, Value v, Value key);

#endif
