#include "tokenizer/jinja/builtin.h"

#include "base/err.h"

#include <string.h>

enum { MOST = 6 };

Value argument_take(JinjaWork *w, MarkedText who, Arguments *given, size_t i, MarkedText name) {
    Value *named = dict_at(w, &given->named, name), v = {0};
    if (i < given->values.n && named) work_fail(w, "%.*s is given %.*s twice", SHOWN(who), SHOWN(name));
    if (i < given->values.n) return given->values.items[i];
    if (!named) return v;
    v = *named;
    named->kind = VALUE_ABSENT;
    return v;
}

void arguments_end(JinjaWork *w, MarkedText who, const Arguments *given, size_t most) {
    if (given->values.n > most)
        work_fail(w, "%.*s takes at most %zu arguments, not %zu", SHOWN(who), most, given->values.n);
    for (size_t i = 0; i < given->named.n; i++)
        if (given->named.pairs[i].value.kind != VALUE_ABSENT)
            work_fail(w, "%.*s has no argument %.*s", SHOWN(who), SHOWN(given->named.pairs[i].key));
}

Value builtin_call(JinjaWork *w, const Builtin *b, Value self, Arguments *given) {
    Value a[MOST] = {0};
    MarkedText who = text_word(w, b->name);
    size_t i = 0;
    work_step(w, 0);
    for (const char *p = b->parameters; *p; p += strspn(p, " !"), i++) {
        MarkedText name = {p, NULL, strcspn(p, " !")};
        p += name.n;
        if (*name.data == '*') {
            a[i] = (Value){.kind = VALUE_DICT, .dict = &given->named};
            return b->call(w, self, a);
        }
        a[i] = argument_take(w, who, given, i, name);
        if (*p == '!' && a[i].kind == VALUE_ABSENT)
            work_fail(w, "%.*s needs the argument %.*s", SHOWN(who), SHOWN(name));
    }
    arguments_end(w, who, given, i);
    return b->call ? b->call(w, self, a) : value_bool(b->kinds >> self.kind & 1);
}

const Builtin *builtin_named(const Builtin *table, MarkedText name, unsigned kinds) {
    for (const Builtin *b = table; b->name; b++)
        if (text_is(name, b->name) && (!kinds || b->kinds & kinds)) return b;
    return NULL;
}
