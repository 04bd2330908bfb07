#include "trainer/text/order.h"

#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

enum { ROUNDS = 6 };

void order_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch) {
    Draws d = draws_open(seed, DRAW_ORDER, (uint32_t)epoch);
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t k = draw_below(&d, i);
        uint32_t swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

uint64_t order_permuted(uint64_t n, uint64_t seed, uint32_t purpose, uint64_t epoch, uint64_t i) {
    int half = 1;
    while (half < 32 && (uint64_t)1 << 2 * half < n) half++;
    uint32_t mask = (uint32_t)(((uint64_t)1 << half) - 1);
    do {
        uint32_t left = (uint32_t)(i >> half) & mask, right = (uint32_t)i & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t next = left ^ (philox4x32(right, round, (uint32_t)epoch, purpose, seed).v[0] & mask);
            left = right;
            right = next;
        }
        i = (uint64_t)left << half | right;
    } while (i >= n);
    return i;
}

void order_open(Order *o, uint64_t n, uint64_t seed) {
    *o = (Order){.n = n, .seed = seed};
    if (n > ORDER_TABLE) return;
    o->table = xmalloc((size_t)n * sizeof *o->table);
    order_shuffle(o->table, (size_t)n, seed, 0);
}

uint64_t order_at(Order *o, uint64_t p) {
    uint64_t epoch = p / o->n, i = p % o->n;
    if (!o->table) return order_permuted(o->n, o->seed, DRAW_ORDER, epoch, i);
    if (epoch != o->epoch) order_shuffle(o->table, (size_t)o->n, o->seed, epoch);
    o->epoch = epoch;
    return o->table[i];
}

void order_close(Order *o) {
    free(o->table);
    o->table = NULL;
}
