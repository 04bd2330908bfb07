/* memory: allocation, and sizes that do not overflow.
 *
 * There are two kinds. The x-functions end the process when memory runs out: right at start, in the trainer and in the
 * tools. What a client asks of a running server must end as its answer: the try-functions, for everything between a
 * connection and its last byte, cJSON's and pcre2's allocations included. A Buffer, a TokenList and whatever else grows
 * by them is `failed` from then on, takes nothing more, and is safe to use and to free. A checkpoint that is loaded
 * while another one serves is between the two: loading is what happens at start, and memory_survives ends the loading
 * and not the process. */
#ifndef NOISED_MEMORY_H
#define NOISED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never return NULL: they end the process with a message, or the innermost memory_survives of their thread. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
void *xaligned(size_t align, size_t n); /* n a multiple of align; free() */

/* NULL when memory runs out, never because n is 0; try_realloc leaves p as it was then. */
void *try_malloc(size_t n);
void *try_calloc(size_t n, size_t size);
void *try_realloc(void *p, size_t n);
char *try_strdup(const char *s);

/* Whether one of them has failed on this thread since the last time somebody asked. So a whole piece of work needs to
 * ask once, and not to know which of its many steps it was. */
bool memory_ran_out(void);

/* What an x-function does then. */
void memory_exhausted(size_t n) __attribute__((noreturn));

/* Runs work(arg). False when an x-function on this thread found no memory: then work ended there and then, like by
 * longjmp, and what only its local variables knew is lost. So it is for work that builds something which hangs on arg
 * at every moment, and which its destructor takes in any state. */
bool memory_survives(void (*work)(void *), void *arg);

/* For tests: of all calls of the functions above, from now on, by any thread, number n from 0 fails, and with
 * `for_ever` all after it; n < 0: none. An x-function that fails ends the test: that is what it would do to the server.
 * Returns how many calls there were since the last time. */
int64_t memory_fail(int64_t n, bool for_ever);

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
