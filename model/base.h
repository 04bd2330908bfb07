/* base: what every other file may lean on. Errors, arena, Philox, clock, log.
 *
 * Errors come in three tiers (the whole project obeys them):
 *   bugs          BUG_ON() aborts, in release builds too;
 *   environment   a function returns 0, or -1 after filling an Err once, at the origin, with names and both values;
 *   clients       server/api.h turns bad requests into OpenAI-shaped JSON.
 * Nothing but a main() exits. Nothing here is thread-safe unless it says so; nothing here has hidden state. */
#ifndef NOISED_BASE_H
#define NOISED_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NOISED_VERSION "0.1.0"
#define COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- errors ---- */

typedef struct Err {
    char msg[512];
} Err;

/* Fills err (may be NULL) and returns -1, so that `return err_set(err, ...)` is the whole failure path. */
int err_set(Err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void bug_abort(const char *file, int line, const char *expr) __attribute__((noreturn));
#define BUG_ON(cond) ((cond) ? bug_abort(__FILE__, __LINE__, #cond) : (void)0)

/* ---- memory ---- */

/* Never return NULL: running out of memory at start or in the trainer ends the process with a message. */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);

/* The calling thread's promise that it allocates nothing from here on, or its end. The thread sanitizer's build
 * (ALLOC_GUARD) aborts when it is broken, by whatever code; others do not look, for the OpenMP library, which that
 * build has not, allocates at many a parallel region. */
void alloc_forbid(bool on);
#ifdef __SANITIZE_THREAD__
enum { ALLOC_GUARD = 1 };
#else
enum { ALLOC_GUARD = 0 };
#endif

/* a * b and a + b for sizes that come from a file: false (and *out untouched) on overflow. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

/* Bump allocator in growing blocks, 64-byte aligned. Rewinding keeps the blocks, so a steady state allocates nothing:
 * `grown` counts the blocks ever taken from the system and stops moving after warm-up (the engine checks that). */
typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
    ArenaBlock *first, *current;
    size_t grown;
} Arena;
typedef struct ArenaMark {
    ArenaBlock *block;
    size_t used;
} ArenaMark;

void arena_init(Arena *a, size_t first_block_bytes);
void arena_free(Arena *a);
void *arena_alloc(Arena *a, size_t bytes);  /* uninitialised */
void *arena_calloc(Arena *a, size_t bytes); /* zeroed */
ArenaMark arena_mark(const Arena *a);
void arena_rewind(Arena *a, ArenaMark m); /* everything allocated since the mark is gone */
size_t arena_used(const Arena *a);
/* Empties it and makes its blocks one. Nothing is lost between blocks then, so what has fitted once, or less, in
 * whatever pieces, fits without growth. */
void arena_join(Arena *a);

/* ---- random numbers: Philox4x32-10 (spec: counter-based, no state) ---- */

typedef struct Philox {
    uint32_t v[4];
} Philox;

/* counter (c0, c1, c2, c3), key = (low, high) 32 bits of key. All zeros gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8. */
Philox philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key);

/* A stream of draws for initialisation, data order and perturbation: every purpose has its own constant, so no two
 * uses of one run seed share numbers, and the i-th draw is a pure function of (seed, purpose, index, i). */
typedef struct Draws {
    uint64_t seed;
    uint32_t purpose, index;
    uint64_t next; /* draws taken so far; may be set, to jump */
    Philox block;  /* the last four words, of draws 4 (filled - 1) .. 4 filled - 1; filled 0 = none yet */
    uint64_t filled;
} Draws;
enum { DRAW_INIT = 0x494E4954, DRAW_ORDER = 0x4F524445, DRAW_PERTURB = 0x50455254, DRAW_TEST = 0x54455354 };
Draws draws_open(uint64_t seed, uint32_t purpose, uint32_t index);
uint32_t draw_u32(Draws *d);
double draw_uniform(Draws *d); /* in (0, 1), 32 bits */
double draw_normal(Draws *d);  /* Box-Muller in double, one Gaussian per call */
uint64_t draw_below(Draws *d, uint64_t n);

/* ---- clock and log ---- */

double now_seconds(void); /* monotonic */

/* One line to stderr with a UTC time stamp; control characters are escaped. Thread-safe. */
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
