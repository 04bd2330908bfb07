/* order: in which order an epoch reads what there is, a pure function. */
#ifndef NOISED_ORDER_H
#define NOISED_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* order[0..n): the numbers 0 .. n - 1, shuffled anew for every epoch of a run seed. */
void order_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch);

#endif
