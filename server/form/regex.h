/* regex: a regular expression as nodes. Syntax and meaning are those of ECMA-262 with its flag u, as JSON Schema wants
 * them, as far as a language without memory goes: alternatives, groups (named or not), classes, \d \w \s and their
 * opposites, escapes of code points, * + ? {n} {n,} {n,m} and their lazy forms, which take the same texts. ^ and $
 * stand at the two ends of an alternative of the whole. What looks around or back, flags, and Unicode's properties are
 * refused by name. */
#ifndef NOISED_FORM_REGEX_H
#define NOISED_FORM_REGEX_H

#include "server/form/graph.h"

/* How the expression's classes and texts stand in a text: NULL as they are; or as nodes of that function's. */
typedef int (*RegexClass)(Form *f, const Range *ranges, int n);

/* `searched`: the text holds a match somewhere, and not: the whole text is one; what is around it is then any number of
 * `any`. The node; -1, and *e filled, when the pattern is wrong. */
int regex_node(Form *f, const char *pattern, size_t n, bool searched, RegexClass class, int any, FormError *e);

#endif
