/* memory: allocation that does not fail, and sizes that do not overflow. */
#ifndef NOISED_MEMORY_H
#define NOISED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never return NULL: running out of memory at start or in the trainer ends the process with a message. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
void *xaligned(size_t align, size_t n); /* n a multiple of align; free() */

/* The calling thread's promise that it allocates nothing from here on, or its end. The thread sanitizer's build
 * (ALLOC_GUARD) aborts when it is broken, by whatever code; others do not look, for the OpenMP library, which that
 * build has not, allocates at many a parallel region. Returns what was promised before. */
bool alloc_forbid(bool on);
#ifdef __SANITIZE_THREAD__
enum { ALLOC_GUARD = 1 };
#else
enum { ALLOC_GUARD = 0 };
#endif

/* a * b and a + b for sizes that come from a file: false (and *out untouched) on overflow. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

#endif
