#include "base/arena.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    b->data = xaligned(align, size);
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
