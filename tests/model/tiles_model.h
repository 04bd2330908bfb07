/* tiles_model: model/kernels/tiles.h in plain C, after the operations in Intel's manual: what the hardware computes,
 * bit for bit, so that amx_*body.h are tested on machines without tiles. Not thread-safe. */
#ifndef NOISED_KERNELS_TILES_H
#define NOISED_KERNELS_TILES_H

#include "base/err.h"
#include "model/tensor.h"

#include <math.h>
#include <string.h>

typedef union TileModel {
    unsigned char bytes[16][64];
    uint16_t halves[16][32];
    int8_t codes[16][64];
    float sums[16][16];
    int32_t products[16][16];
} TileModel;

static TileModel tile_model[8];
static bool tiles_are_open;

static inline void tiles_open(void) {
    memset(tile_model, 0, sizeof tile_model);
    tiles_are_open = true;
}
static inline void tiles_close(void) { tiles_are_open = false; }

static inline void tile_model_move(int t, void *p, size_t stride, bool store) {
    BUG_ON(!tiles_are_open);
    for (size_t r = 0; r < 16; r++) {
        char *row = (char *)p + r * stride;
        memcpy(store ? (void *)row : tile_model[t].bytes[r], store ? (const void *)tile_model[t].bytes[r] : row, 64);
    }
}

/* Subnormals are taken and made as zeros of their sign. */
static inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static inline float half_at(const TileModel *t, int row, int i) { return flushed(bf16_to_f32(t->halves[row][i])); }

static inline void tile_model_dot_bf16(TileModel *c, const TileModel *a, const TileModel *b) {
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float even = 0, odd = 0;
            for (int k = 0; k < 16; k++) {
                even = flushed(fmaf(half_at(a, m, 2 * k), half_at(b, k, 2 * n), even));
                odd = flushed(fmaf(half_at(a, m, 2 * k + 1), half_at(b, k, 2 * n + 1), odd));
            }
            c->sums[m][n] = flushed(flushed(c->sums[m][n]) + flushed(even + odd));
        }
}

static inline void tile_model_dot_i8(TileModel *c, const TileModel *a, const TileModel *b) {
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++)
            for (int k = 0; k < 64; k++) c->products[m][n] += a->codes[m][k] * b->codes[k / 4][4 * n + k % 4];
}

#define TILE_ZERO(c) memset(&tile_model[c], 0, sizeof tile_model[c])
#define TILE_LOAD(t, p, stride) tile_model_move(t, (void *)(uintptr_t)(p), stride, false)
#define TILE_STORE(t, p, stride) tile_model_move(t, p, stride, true)
#define TILE_DOT_BF16(c, a, b) tile_model_dot_bf16(&tile_model[c], &tile_model[a], &tile_model[b])
#define TILE_DOT_I8(c, a, b) tile_model_dot_i8(&tile_model[c], &tile_model[a], &tile_model[b])

#endif
