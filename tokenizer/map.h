/* map: the two hash tables of the tokenizer and its trainer. Open addressing, growing, no removal.
 * Reading is safe from several threads. */
#ifndef NOISED_TOKENIZER_MAP_H
#define NOISED_TOKENIZER_MAP_H

#include "base/err.h"

/* byte string -> int >= 0. Keys are borrowed: their bytes must outlive the map. */
typedef struct TextMap {
    struct TextSlot *slots;
    size_t n, capacity;
} TextMap;

/* The value's place for this key. A new key starts with -1 and the caller must give it a value. */
int *text_map_at(TextMap *m, const char *key, size_t n);
int text_map_find(const TextMap *m, const char *key, size_t n); /* -1 when absent */
void text_map_free(TextMap *m);

/* (int >= 0, int >= 0) -> int >= 0 */
typedef struct PairMap {
    struct PairSlot *slots;
    size_t n, capacity;
} PairMap;

int *pair_map_at(PairMap *m, int left, int right); /* as text_map_at */
int pair_map_find(const PairMap *m, int left, int right);
void pair_map_free(PairMap *m);

#endif
