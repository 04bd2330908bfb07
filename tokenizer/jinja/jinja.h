/* jinja: chat templates, programs in the part of Jinja that such templates are written in, as transformers runs them:
 * jinja2's sandbox with trim_blocks, lstrip_blocks, loop controls, `generation` blocks, tojson, raise_exception and
 * strftime_now (methods.c), whose day is always the same. What there is of filters, tests and methods is listed in
 * filters.c, tests.c and methods.c. What no published template uses is not there, and refused: include, import,
 * extends, block, call, filter and raw, recursive loops, changing of lists, keys that are no strings, `**` and chains
 * as a < b < c.
 *
 * Any source and any values may be given: time, memory, depth and answer are bounded. */
#ifndef NOISED_JINJA_H
#define NOISED_JINJA_H

#include "base/buffer.h"
#include "tokenizer/jinja/value.h"

typedef struct Jinja Jinja; /* a program, constant: any number of threads may run it */

/* NULL: err says what is wrong with the source, and in which line. */
Jinja *jinja_parse(const char *source, size_t n, Err *err);
void jinja_free(Jinja *j); /* NULL: nothing */

/* Whether it asks for a variable of this name. */
bool jinja_mentions(const Jinja *j, const char *name);

/* Appends what the program writes to text, and the mark of every byte to marks. `fill` gives it its variables, by
 * jinja_set. -1: err has the words of the template's raise_exception, or says what went wrong in which line. */
int jinja_run(const Jinja *j, void (*fill)(JinjaWork *w, void *self), void *self, Buffer *text, Buffer *marks,
              Err *err);
void jinja_set(JinjaWork *w, const char *name, Value v);

#endif
