#include "base/random.h"

#include "base/fixed_math.h"

#include <math.h>

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

uint64_t seed_fold(int64_t any) {
    uint64_t bits = (uint64_t)any;
    if (any >= 0 && any <= SEED_MAX) return bits;
    Philox p = philox4x32((uint32_t)bits, (uint32_t)(bits >> 32), 0, 0x53454544, 0);
    return (p.v[0] | (uint64_t)p.v[1] << 32) & SEED_MAX;
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
    double r = sqrt(-2 * fixed_log(draw_uniform(d)));
    return r * fixed_cos(6.283185307179586 * draw_uniform(d));
}

/* 64 random bits modulo n: the bias is below n / 2^64. */
uint64_t draw_below(Draws *d, uint64_t n) {
    uint64_t hi = draw_u32(d);
    return (hi << 32 | draw_u32(d)) % n;
}
