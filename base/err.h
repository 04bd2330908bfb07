/* err: what every other file may lean on. Errors come in three tiers (the whole project obeys them):
 *   bugs          BUG_ON() aborts, in release builds too;
 *   environment   a function returns 0, or -1 after filling an Err once, at the origin, with names and both values;
 *   clients       server/api/error.h turns bad requests into OpenAI-shaped JSON.
 * Nothing but a main() exits. Nothing in base is thread-safe unless it says so; nothing there has hidden state. */
#ifndef NOISED_ERR_H
#define NOISED_ERR_H

#include "base/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NOISED_VERSION "0.1.0"

typedef struct Err {
    char msg[512];
} Err;

/* Fills err (may be NULL) and returns -1, so that `return err_set(err, ...)` is the whole failure path. */
int err_set(Err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void bug_abort(const char *file, int line, const char *expr) __attribute__((noreturn));
#define BUG_ON(cond) ((cond) ? bug_abort(__FILE__, __LINE__, #cond) : (void)0)

#endif
