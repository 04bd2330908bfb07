#include "tokenizer/map.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

static uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

/* ---- byte string -> int ---- */

struct TextSlot {
    const char *key; /* NULL: empty */
    size_t n;
    uint32_t hash;
    int value;
};

static uint32_t text_hash(const char *key, size_t n) {
    uint64_t h = n, word = 0;
    for (; n >= 8; key += 8, n -= 8) {
        memcpy(&word, key, 8);
        h = mix(h ^ word);
    }
    word = 0;
    memcpy(&word, key, n);
    return (uint32_t)mix(h ^ word);
}

static struct TextSlot *text_slot(const TextMap *m, const char *key, size_t n, uint32_t hash) {
    for (size_t i = hash & (m->capacity - 1);; i = (i + 1) & (m->capacity - 1)) {
        struct TextSlot *s = &m->slots[i];
        if (!s->key || (s->hash == hash && s->n == n && memcmp(s->key, key, n) == 0)) return s;
    }
}

static void text_map_grow(TextMap *m) {
    TextMap old = *m;
    m->capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY;
    m->slots = xcalloc(m->capacity, sizeof *m->slots);
    for (size_t i = 0; i < old.capacity; i++) {
        const struct TextSlot *s = &old.slots[i];
        if (s->key) *text_slot(m, s->key, s->n, s->hash) = *s;
    }
    free(old.slots);
}

int *text_map_at(TextMap *m, const char *key, size_t n) {
    if (m->n >= m->capacity / 2) text_map_grow(m);
    uint32_t hash = text_hash(key, n);
    struct TextSlot *s = text_slot(m, key, n, hash);
    if (!s->key) {
        *s = (struct TextSlot){.key = key, .n = n, .hash = hash, .value = -1};
        m->n++;
    }
    return &s->value;
}

int text_map_find(const TextMap *m, const char *key, size_t n) {
    if (m->n == 0) return -1;
    const struct TextSlot *s = text_slot(m, key, n, text_hash(key, n));
    return s->key ? s->value : -1;
}

void text_map_free(TextMap *m) {
    free(m->slots);
    *m = (TextMap){0};
}

/* ---- pair -> int ---- */

struct PairSlot {
    uint64_t key; /* left << 32 | right, plus 1; 0: empty */
    int value;
};

static uint64_t pair_key(int left, int right) { return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1; }

static struct PairSlot *pair_slot(const PairMap *m, uint64_t key) {
    size_t i = mix(key) & (m->capacity - 1);
    while (m->slots[i].key && m->slots[i].key != key) i = (i + 1) & (m->capacity - 1);
    return &m->slots[i];
}

static void pair_map_grow(PairMap *m) {
    PairMap old = *m;
    m->capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY;
    m->slots = xcalloc(m->capacity, sizeof *m->slots);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i].key) *pair_slot(m, old.slots[i].key) = old.slots[i];
    free(old.slots);
}

int *pair_map_at(PairMap *m, int left, int right) {
    if (m->n >= m->capacity / 2) pair_map_grow(m);
    uint64_t key = pair_key(left, right);
    struct PairSlot *s = pair_slot(m, key);
    if (!s->key) {
        *s = (struct PairSlot){.key = key, .value = -1};
        m->n++;
    }
    return &s->value;
}

int pair_map_find(const PairMap *m, int left, int right) {
    if (m->n == 0) return -1;
    const struct PairSlot *s = pair_slot(m, pair_key(left, right));
    return s->key ? s->value : -1;
}

void pair_map_free(PairMap *m) {
    free(m->slots);
    *m = (PairMap){0};
}
