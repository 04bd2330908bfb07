/* random: Philox4x32-10, counter-based, no state. */
#ifndef NOISED_RANDOM_H
#define NOISED_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Philox {
    uint32_t v[4];
} Philox;

/* Seeds of all kinds are integers that a JSON number carries exactly. */
enum { SEED_BITS = 53 };
#define SEED_MAX (((int64_t)1 << SEED_BITS) - 1)

/* Any integer as a seed (spec section 6): 0..SEED_MAX stand for themselves, others are folded into that range. */
uint64_t seed_fold(int64_t any);

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
enum {
    DRAW_MIX = 0x4D495849,
    DRAW_INIT = 0x494E4954,
    DRAW_ORDER = 0x4F524445,
    DRAW_PERTURB = 0x50455254,
    DRAW_DROPOUT = 0x44524F50,
    DRAW_MASK = 0x4D41534B,
    DRAW_CODE = 0x434F4445,
    DRAW_TEST = 0x54455354
};
Draws draws_open(uint64_t seed, uint32_t purpose, uint32_t index);
uint32_t draw_u32(Draws *d);
double draw_uniform(Draws *d); /* in (0, 1), 32 bits */
double draw_normal(Draws *d);  /* Box-Muller in double, one Gaussian per call */
uint64_t draw_below(Draws *d, uint64_t n);

#endif
