/* arena: memory that is given out piece by piece and taken back all at once. */
#ifndef NOISED_ARENA_H
#define NOISED_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
