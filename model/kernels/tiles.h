/* tiles: AMX as the few operations that amx_*body.h need; tests put a model of the same in their place.
 *
 * Eight tiles of 16 rows x 64 bytes. The assembler is spelled out because gcc 12's _tile_loadconfig declares 8 of the
 * 64 bytes as read, and its tile loads and stores no memory at all. Tile numbers are literals. */
#ifndef NOISED_KERNELS_TILES_H
#define NOISED_KERNELS_TILES_H

#include <stdint.h>

typedef struct TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;

static inline void tiles_open(void) {
    TileConfig c = {.palette = 1};
    for (int t = 0; t < 8; t++) c.row_bytes[t] = 64, c.rows[t] = 16;
    __asm__ volatile("ldtilecfg %0" ::"m"(c) : "memory");
}

/* Also tells the operating system that there is no tile state to save. */
static inline void tiles_close(void) { __asm__ volatile("tilerelease" ::: "memory"); }

/* c = 0;  t = 16 rows of 64 bytes, `stride` bytes apart;  and back */
#define TILE_ZERO(c) __asm__ volatile("tilezero %%tmm" #c ::: "memory")
#define TILE_LOAD(t, p, stride)                                                                                        \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(p)), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(t, p, stride)                                                                                       \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(p)), "r"((size_t)(stride)) : "memory")

/* c[i, j] += sum over u of the products of units a[i, u] and b[u, j]: units of two bf16 or of four signed bytes. */
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")
#define TILE_DOT_I8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")

#endif
