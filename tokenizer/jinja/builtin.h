/* builtin: the filters, tests, methods and functions of the language, each a row of a table. */
#ifndef NOISED_JINJA_BUILTIN_H
#define NOISED_JINJA_BUILTIN_H

#include "tokenizer/jinja/value.h"

/* self: what is filtered, tested or has the method. a: an argument for each of `parameters`, VALUE_ABSENT where none is
 * given. A parameter "*" is a dict of all arguments by name. */
typedef Value BuiltinCall(JinjaWork *w, Value self, const Value *a);
typedef struct Builtin {
    const char *name;
    BuiltinCall *call;      /* NULL: a test that asks for the kind */
    const char *parameters; /* "width first"; those in front that must be given end in a "!" */
    unsigned kinds;         /* of values that have the method, or that the test is true of: bits */
} Builtin;

typedef struct Function {
    const Builtin *builtin;
    Value self;
} Function;

/* Each is taken once; what is left in the end is one too many. */
typedef struct Arguments {
    Value values; /* a list */
    Dict named;
} Arguments;

/* The i-th argument of `who`, which has this name. */
Value argument_take(JinjaWork *w, MarkedText who, Arguments *given, size_t i, MarkedText name);
void arguments_end(JinjaWork *w, MarkedText who, const Arguments *given, size_t most);

Value builtin_call(JinjaWork *w, const Builtin *b, Value self, Arguments *given);

/* The tables, which end in a row without a name (filters.c, tests.c, methods.c). */
extern const Builtin jinja_filters[], jinja_tests[], jinja_methods[], jinja_functions[];
const Builtin *builtin_named(const Builtin *table, MarkedText name, unsigned kinds); /* NULL: none; 0: of any kind */

/* Filters that are methods of strings and dicts too. */
BuiltinCall filter_capitalize, filter_items, filter_lower, filter_replace, filter_trim, filter_upper;

#endif
