#include "base/memory.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local bool allocation_forbidden;

bool alloc_forbid(bool on) {
    bool before = allocation_forbidden;
    allocation_forbidden = on;
    return before;
}

#ifdef __SANITIZE_THREAD__
/* The sanitizer calls it for every allocation. */
void __sanitizer_malloc_hook(const volatile void *p, size_t n);
void __sanitizer_malloc_hook(const volatile void *p, size_t n) {
    (void)p, (void)n;
    BUG_ON(allocation_forbidden);
}
#endif

static void *or_die(void *p, size_t n) {
    if (p || n == 0) return p;
    fprintf(stderr, "out of memory: %zu bytes\n", n);
    _exit(1); /* not a bug of ours: no core */
}

void *xmalloc(size_t n) { return or_die(malloc(n), n); }
void *xcalloc(size_t n, size_t size) { return or_die(calloc(n, size), n * size); }
void *xrealloc(void *p, size_t n) { return or_die(realloc(p, n), n); }

void *xaligned(size_t align, size_t n) { return or_die(aligned_alloc(align, n), n); }

char *xstrdup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}

bool size_mul(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

bool size_add(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
