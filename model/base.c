#include "base.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int err_set(Err *err, const char *fmt, ...) {
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
    }
    return -1;
}

void bug_abort(const char *file, int line, const char *expr) {
    fprintf(stderr, "bug: %s:%d: %s\n", file, line, expr);
    abort();
}

static _Thread_local bool allocation_forbidden;

void alloc_forbid(bool on) { allocation_forbidden = on; }

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
    abort();
}

void *xmalloc(size_t n) { return or_die(malloc(n), n); }
void *xcalloc(size_t n, size_t size) { return or_die(calloc(n, size), n * size); }
void *xrealloc(void *p, size_t n) { return or_die(realloc(p, n), n); }

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

/* ---- arena ---- */

enum { ARENA_ALIGN = 64, ARENA_HUGE = 1 << 21 }; /* blocks of huge pages: fewer faults, fewer TLB misses */

struct ArenaBlock {
    ArenaBlock *next;
    size_t size, used;
    unsigned char *data;
};

static ArenaBlock *block_new(size_t size) {
    ArenaBlock *b = xcalloc(1, sizeof *b);
    size_t align = size < ARENA_HUGE ? ARENA_ALIGN : ARENA_HUGE;
    b->size = size = (size + align - 1) / align * align;
    b->data = or_die(aligned_alloc(align, size), size);
    if (align == ARENA_HUGE) madvise(b->data, size, MADV_HUGEPAGE);
    return b;
}

void arena_init(Arena *a, size_t first_block_bytes) {
    a->first = a->current = block_new(MAX(first_block_bytes, ARENA_ALIGN));
    a->grown = 1;
}

void arena_free(Arena *a) {
    for (ArenaBlock *b = a->first, *next; b; b = next) {
        next = b->next;
        free(b->data);
        free(b);
    }
    *a = (Arena){0};
}

void *arena_alloc(Arena *a, size_t bytes) {
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    ArenaBlock *b = a->current;
    while (b->used + bytes > b->size) {
        if (!b->next) {
            b->next = block_new(MAX(bytes, 2 * b->size));
            a->grown++;
        }
        b = b->next;
        b->used = 0;
        a->current = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    return p;
}

void *arena_calloc(Arena *a, size_t bytes) { return memset(arena_alloc(a, bytes), 0, bytes); }

ArenaMark arena_mark(const Arena *a) { return (ArenaMark){.block = a->current, .used = a->current->used}; }

void arena_rewind(Arena *a, ArenaMark m) {
    a->current = m.block;
    a->current->used = m.used;
}

size_t arena_used(const Arena *a) {
    size_t n = 0;
    for (const ArenaBlock *b = a->first;; b = b->next) {
        n += b->used;
        if (b == a->current) return n;
    }
}

void arena_join(Arena *a) {
    size_t grown = a->grown, size = 0;
    for (const ArenaBlock *b = a->first; b; b = b->next) size += b->size;
    arena_free(a);
    arena_init(a, size);
    a->grown += grown;
}

/* ---- Philox ---- */

Philox philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (Philox){{c0, c1, c2, c3}};
}

Draws draws_open(uint64_t seed, uint32_t purpose, uint32_t index) {
    return (Draws){.seed = seed, .purpose = purpose, .index = index};
}

uint32_t draw_u32(Draws *d) {
    uint64_t i = d->next++;
    if (d->filled != i / 4 + 1) {
        d->block = philox4x32((uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), d->index, d->purpose, d->seed);
        d->filled = i / 4 + 1;
    }
    return d->block.v[i % 4];
}

double draw_uniform(Draws *d) { return (draw_u32(d) + 0.5) / 4294967296.0; }

double draw_normal(Draws *d) {
    double r = sqrt(-2 * log(draw_uniform(d)));
    return r * cos(6.283185307179586 * draw_uniform(d));
}

/* 64 random bits modulo n: the bias is below n / 2^64. */
uint64_t draw_below(Draws *d, uint64_t n) {
    uint64_t hi = draw_u32(d);
    return (hi << 32 | draw_u32(d)) % n;
}

/* ---- clock and log ---- */

double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void log_line(const char *fmt, ...) {
    char text[1024], line[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &tm);
    int m = snprintf(line + n, sizeof line - n, "%s\n", text);
    fwrite(line, 1, n + (size_t)m, stderr); /* one call, so that lines of several threads never mix */
}
