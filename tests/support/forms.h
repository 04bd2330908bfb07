/* Forms without a server: what they take, whole or as a beginning. */
#ifndef NOISED_TEST_FORMS_H
#define NOISED_TEST_FORMS_H

#include "server/form/form.h"

/* The form of a schema's text. NULL, and e filled, also where the text is no JSON. */
Form *form_of_schema_text(const char *json, FormError *e);

typedef enum Taken { TAKEN_NOT, TAKEN_BEGINNING, TAKEN_WHOLE } Taken;

/* How far the form goes along with text[0..n): byte by byte and in one piece, which must agree. */
Taken form_takes(Form *f, const char *text, size_t n);

/* A table's rows: texts that are whole, up to a NULL, then those that are not, up to another. */
void form_check(Form *f, const char *name, const char *const *whole, const char *const *others);

#endif
