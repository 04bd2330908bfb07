/* order: in which order an epoch reads what there is, a pure function of seed and epoch.
 *
 * Up to ORDER_TABLE things are shuffled in a table (Fisher and Yates, docs/spec.md 5). More are permuted without one:
 * the place i < n, as 2 b bits with 4^b >= n, goes through a Feistel network of six rounds,
 *     (l, r) -> (r, l xor philox(r, round, epoch, purpose; seed)),
 * again and again until it is below n, which takes four times at most in the mean. */
#ifndef NOISED_ORDER_H
#define NOISED_ORDER_H

#include <stddef.h>
#include <stdint.h>

enum { ORDER_TABLE = 1 << 22 };

/* order[0..n): the numbers 0 .. n - 1, shuffled anew for every epoch of a run seed. */
void order_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch);

/* What stands at place i of the n in the order of an epoch, without a table. purpose: one of random.h's. */
uint64_t order_permuted(uint64_t n, uint64_t seed, uint32_t purpose, uint64_t epoch, uint64_t i);

typedef struct Order {
    uint64_t n, seed, epoch;
    uint32_t *table; /* of the epoch; NULL: too many */
} Order;

void order_open(Order *o, uint64_t n, uint64_t seed);
uint64_t order_at(Order *o, uint64_t p); /* what is read p-th, p = epoch n + i */
void order_close(Order *o);

#endif
