#include "trainer/text/order.h"

#include "base/random.h"

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
