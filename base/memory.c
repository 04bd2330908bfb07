#include "base/memory.h"

#include "base/err.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdatomic.h>
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
/* The sanitizer calls it for every allocation. The promise ends before the abort, whose first line may allocate. */
void __sanitizer_malloc_hook(const volatile void *p, size_t n);
void __sanitizer_malloc_hook(const volatile void *p, size_t n) {
    (void)p, (void)n;
    BUG_ON(alloc_forbid(false));
}
#endif

/* ---- what may fail ---- */

static _Thread_local bool ran_out;
static atomic_llong n_asked, failing_call = -1;
static atomic_bool failing_on;

static bool may_allocate(void) {
    long long call = atomic_fetch_add_explicit(&n_asked, 1, memory_order_relaxed), n = atomic_load(&failing_call);
    return n < 0 || call < n || (call > n && !atomic_load(&failing_on));
}

int64_t memory_fail(int64_t n, bool for_ever) {
    atomic_store(&failing_on, for_ever);
    atomic_store(&failing_call, n);
    return atomic_exchange(&n_asked, 0);
}

bool memory_ran_out(void) {
    bool so = ran_out;
    ran_out = false;
    return so;
}

static void *noted(void *p) {
    if (!p) ran_out = true;
    return p;
}

void *try_malloc(size_t n) { return noted(may_allocate() ? malloc(MAX(n, 1)) : NULL); }
void *try_calloc(size_t n, size_t size) { return noted(may_allocate() ? calloc(MAX(n, 1), MAX(size, 1)) : NULL); }
void *try_realloc(void *p, size_t n) { return noted(may_allocate() ? realloc(p, MAX(n, 1)) : NULL); }

char *try_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = try_malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

/* ---- what may not ---- */

static _Thread_local jmp_buf *survivor; /* of the innermost memory_survives */

void memory_exhausted(size_t n) {
    if (survivor) longjmp(*survivor, 1);
    log_error("out of memory: %zu bytes", n);
    log_flush(1);
    _exit(1); /* not a bug of ours: no core */
}

static void *or_die(void *p, size_t n) {
    if (!p) memory_exhausted(n);
    return p;
}

void *xmalloc(size_t n) { return or_die(try_malloc(n), n); }
void *xcalloc(size_t n, size_t size) { return or_die(try_calloc(n, size), n * size); }
void *xrealloc(void *p, size_t n) { return or_die(try_realloc(p, n), n); }
void *xaligned(size_t align, size_t n) { return or_die(may_allocate() ? aligned_alloc(align, n) : NULL, n); }

bool memory_survives(void (*work)(void *), void *arg) {
    jmp_buf here, *before = survivor;
    if (setjmp(here)) {
        survivor = before;
        return false;
    }
    survivor = &here;
    work(arg);
    survivor = before;
    return true;
}

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
