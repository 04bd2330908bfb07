/* ints_ref: sixteen i32 lanes for sums of int8 products in plain C, the contract of ints_avx2.h and ints_avx512.h.
 *
 * A lane multiplies one unit at a time: 32 bits of x against 32 bits of w. What a unit holds is the level's own affair
 * (here one code, elsewhere 2 or 4), for integer sums are exact. A group of INT8_GROUP codes makes INT8_UNITS units. */
#ifndef NOISED_KERNELS_INTS_H
#define NOISED_KERNELS_INTS_H

#include "model/tensor.h"

enum { INT8_UNITS = INT8_GROUP, INT8_ROWS = 1, INT8_VECS = 1 };

typedef struct Ints {
    int32_t v[16];
} Ints;

static inline Ints ints_load(const uint32_t *units) {
    Ints r;
    for (int l = 0; l < 16; l++) r.v[l] = (int32_t)units[l];
    return r;
}

/* The same, held in a register. */
static inline Ints ints_keep(Ints a) { return a; }

static inline void ints_store(uint32_t *p, Ints a) {
    for (int l = 0; l < 16; l++) p[l] = (uint32_t)a.v[l];
}

static inline Ints ints_set1(uint32_t unit) {
    Ints r;
    for (int l = 0; l < 16; l++) r.v[l] = (int32_t)unit;
    return r;
}

/* acc[l] += the products of the codes of x[l] and w[l] */
static inline Ints ints_dot(Ints acc, Ints x, Ints w) {
    for (int l = 0; l < 16; l++) acc.v[l] += x.v[l] * w.v[l];
    return acc;
}

static inline Vec ints_to_vec(Ints a) {
    Vec r;
    for (int l = 0; l < 16; l++) r.v[l] = (float)a.v[l];
    return r;
}

/* A group of x -> [INT8_UNITS]. */
static inline void ints_pack_x(const int8_t *x, uint32_t *units) {
    for (int u = 0; u < INT8_UNITS; u++) units[u] = (uint32_t)x[u];
}

/* A group of 16 rows of W, `ld` bytes apart, of which `outs` exist: lane l of the units at units + u step is unit u of
 * row l. Returns what the sums must start from. */
static inline Ints ints_pack_w(const int8_t *w, size_t ld, int outs, uint32_t *units, size_t step) {
    for (int u = 0; u < INT8_UNITS; u++)
        for (int l = 0; l < 16; l++)
            units[(size_t)u * step + (size_t)l] = l < outs ? (uint32_t)w[(size_t)l * ld + (size_t)u] : 0;
    return ints_set1(0);
}

/* Lane l: the product of a group of x and that of row l of W, as above; lanes without a row hold anything. */
static inline Ints ints_dots(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    Ints r = ints_set1(0);
    for (int l = 0; l < outs; l++)
        for (int k = 0; k < INT8_GROUP; k++) r.v[l] += x[k] * w[(size_t)l * ld + (size_t)k];
    return r;
}

/* ---- I4: lane l has four codes of output l, plus 8, a byte each; INT4_ROWS rows x INT4_VECS vectors are a tile ----
 */

enum { INT4_ROWS = 1, INT4_VECS = 1 };

/* Those in the lower and in the upper halves of 64 bytes. */
static inline Ints ints4_low(const uint8_t *w) {
    Ints r;
    for (int l = 0; l < 16; l++) {
        const uint8_t *b = w + 4 * l;
        uint32_t four = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        r.v[l] = (int32_t)(four & 0x0f0f0f0f);
    }
    return r;
}
static inline Ints ints4_high(const uint8_t *w) {
    Ints r;
    for (int l = 0; l < 16; l++) {
        const uint8_t *b = w + 4 * l;
        uint32_t four = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        r.v[l] = (int32_t)(four >> 4 & 0x0f0f0f0f);
    }
    return r;
}

/* Four codes of x for all lanes. */
static inline Ints ints4_set1(const int8_t *x) {
    return ints_set1((uint32_t)(uint8_t)x[0] | (uint32_t)(uint8_t)x[1] << 8 | (uint32_t)(uint8_t)x[2] << 16 |
                     (uint32_t)(uint8_t)x[3] << 24);
}

/* start, 8 dots and end make `less` + a group's products; what lies between is the level's own affair. */
static inline Ints ints4_start(int32_t less) { return ints_set1((uint32_t)less); }
static inline Ints ints4_dot(Ints acc, Ints x, Ints w) {
    for (int l = 0; l < 16; l++)
        for (int c = 0; c < 32; c += 8) acc.v[l] += (int8_t)(x.v[l] >> c) * (w.v[l] >> c & 15);
    return acc;
}
static inline Ints ints4_end(Ints acc, int32_t less) {
    (void)less;
    return acc;
}

#endif
