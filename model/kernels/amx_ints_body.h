/* amx_ints_body: y = x W^T of codes in tiles, with the bits of int8_body.h and int4_body.h. What counts is not to make
 * the products of a group but to convert and scale them, 48 vector operations a tile, which one port does alone while
 * tiles are at work.
 *
 * One side, the left one, is read in place as operand A, 16 rows x 64 bytes; the other one is packed into the units of
 * operand B, 16 rows a tile. Four steps of the left, a group of int8 each, rest in tiles while all tiles of the right
 * pass by; sums of one tile rest in registers meanwhile, a row of the left each. The products of a group are stored,
 * and converted while those of the next groups are made.
 *
 * int8 has W as the left one where rows are few, since packing costs as much as a few products do; y then comes out
 * turned. Where there are many, W is packed: y is written in longer pieces. I4 must be unpacked, so W is the right one,
 * and a step has two parts: tiles of the right that are zeros where the other group of the left's 64 bytes is.
 * Include lanes_avx512.h, tiles.h, or a model of it, and amx_body.h before this. */

enum { INTS_STEPS = 4, INTS_AHEAD = 2 };      /* groups of the left that rest in tiles; by which products are ahead */
enum { INTS_PACKED = 384, INTS_GROUPS = 48 }; /* tiles of int8 and groups that are packed at a time */
enum { INTS_X_ROWS = 256, INTS_X_TILES = 8 }; /* most rows of x that are packed; most tiles of them at a time */
enum { INTS_TILES = 32 };                     /* and of W */
enum { INT4_UNITS = INT4_GROUP / 4, INT4_STEP_UNITS = 3 * INT4_UNITS }; /* a group, zeros, the next group */

typedef struct IntsSide {
    const int8_t *codes;
    const float *scale;
    size_t rows;
} IntsSide;

typedef struct IntsGemm {
    IntsSide left, right;
    const uint8_t *w4; /* I4 only: the right's codes and scales */
    const uint16_t *w4_scale;
    size_t k, groups; /* groups of INT8_GROUP */
    bool turned;      /* W is the left one */
    float *y;
    size_t ldy;
} IntsGemm;

/* Where tiles of the left are, rows `ld` and steps `step` bytes apart, and the rows that are read after them. */
typedef struct IntsLeft {
    const char *at;
    size_t ld, step;
    const char *soon;
    size_t ld_soon, i;
} IntsLeft;

/* Groups g0.. of the right's rows r0.. */
typedef struct IntsPanel {
    _Alignas(64) uint32_t right[INTS_PACKED * AMX_TILE][AMX_TILE]; /* [tile][group][unit] */
    _Alignas(64) float right_scale[INTS_PACKED * 2][AMX_TILE];     /* [tile][group][part] */
    _Alignas(64) float left_scale[INTS_GROUPS][AMX_TILE];
    _Alignas(64) float sums[INTS_TILES][AMX_TILE][AMX_TILE];
    _Alignas(64) int32_t products[INTS_STEPS][AMX_TILE][AMX_TILE];
    _Alignas(64) uint32_t copy[INTS_STEPS][AMX_TILE][AMX_TILE];
    size_t r0, tiles, g0, groups;
} IntsPanel;

/* scale[g][l] of the panel's groups and rows i + l, and up to 15 more of scale than there are groups. */
static void ints_scales(const IntsGemm *a, const IntsPanel *p, const IntsSide *side, size_t i,
                        float (*scale)[AMX_TILE]) {
    size_t rows = tile_left(side->rows, i);
    for (size_t g = 0; g < p->groups; g += AMX_TILE)
        tile_turn(side->scale + i * a->groups + p->g0 + g, a->groups * sizeof(float), rows,
                  tile_left(p->groups, g) * sizeof(float), scale[g]);
}

static void ints_pack(const IntsGemm *a, IntsPanel *p) {
    for (size_t t = 0; t < p->tiles; t++) {
        size_t i = p->r0 + t * AMX_TILE, rows = tile_left(a->right.rows, i), at = t * p->groups;
        const int8_t *codes = a->right.codes + i * a->k + p->g0 * INT8_GROUP;
        for (size_t g = 0; g < p->groups; g++, codes += INT8_GROUP)
            tile_turn(codes, a->k, rows, AMX_BYTES, p->right + (at + g) * AMX_TILE);
        ints_scales(a, p, &a->right, i, p->right_scale + at);
    }
}

static void ints4_pack(const IntsGemm *a, IntsPanel *p) {
    for (size_t t = 0; t < p->tiles; t++)
        for (size_t g = 0; g < 2 * p->groups; g++) {
            size_t block = (p->r0 / AMX_TILE + t) * 2 * a->groups + 2 * p->g0 + g, at = t * p->groups + g / 2;
            uint32_t(*units)[AMX_TILE] = p->right + at * INT4_STEP_UNITS + g % 2 * 2 * INT4_UNITS;
            for (size_t q = 0; q < 4; q++) {
                const uint8_t *w = a->w4 + block * INT4_BLOCK + q * AMX_BYTES;
                Ints less = _mm512_set1_epi8(8);
                ints_store(units[q], _mm512_sub_epi8(ints4_low(w), less));
                ints_store(units[4 + q], _mm512_sub_epi8(ints4_high(w), less));
            }
            if (g % 2 == 0) memset(units[INT4_UNITS], 0, INT4_UNITS * sizeof units[0]);
            vec_store(p->right_scale[2 * at + g % 2], vec_load_f16(a->w4_scale + block * INT4_OUTS));
        }
}

/* The products of step `step` of the left, which rests in a tile, and a tile of the right. */
INLINE void ints_multiply(int step, int place, const void *right, int32_t product[AMX_TILE][AMX_TILE]) {
    if (place % 2 == 0) {
        TILE_ZERO(0);
        TILE_LOAD(2, right, AMX_BYTES);
        if (step == 0) TILE_DOT_I8(0, 4, 2);
        if (step == 1) TILE_DOT_I8(0, 5, 2);
        if (step == 2) TILE_DOT_I8(0, 6, 2);
        if (step == 3) TILE_DOT_I8(0, 7, 2);
        TILE_STORE(0, product, AMX_BYTES);
    } else {
        TILE_ZERO(1);
        TILE_LOAD(3, right, AMX_BYTES);
        if (step == 0) TILE_DOT_I8(1, 4, 3);
        if (step == 1) TILE_DOT_I8(1, 5, 3);
        if (step == 2) TILE_DOT_I8(1, 6, 3);
        if (step == 3) TILE_DOT_I8(1, 7, 3);
        TILE_STORE(1, product, AMX_BYTES);
    }
}

/* Where in y the sums of rows i.. of the left and tile t are. */
typedef struct IntsPlace {
    float *y;
    size_t rows, columns;
} IntsPlace;

INLINE IntsPlace ints_place(const IntsGemm *a, const IntsPanel *p, size_t i, size_t t) {
    size_t lefts = tile_left(a->left.rows, i), r = p->r0 + t * AMX_TILE, rights = tile_left(a->right.rows, r);
    if (a->turned) return (IntsPlace){a->y + r * a->ldy + i, rights, lefts};
    return (IntsPlace){a->y + i * a->ldy + r, lefts, rights};
}

INLINE void ints_store_sums(const IntsGemm *a, const IntsPlace *place, const Vec sums[AMX_TILE]) {
    __m512i r[AMX_TILE];
#pragma GCC unroll 16
    for (size_t l = 0; l < AMX_TILE; l++) r[l] = _mm512_castps_si512(sums[l]);
    if (a->turned) ints_transpose(r);
    float *y = place->y;
#pragma GCC unroll 16
    for (size_t l = 0; l < AMX_TILE; l++) {
        if (l < place->rows) vec_store_n(y, _mm512_castsi512_ps(r[l]), (int)place->columns);
        y += a->ldy;
    }
}

/* Groups g..g+steps-1 of 16 rows of the left, each of so many parts, and all tiles of the panel. */
INLINE void ints_steps(int parts, int steps, const IntsGemm *a, IntsPanel *p, size_t g, const IntsLeft *left) {
    const bool first = p->g0 + g == 0, last = g + (size_t)steps == p->groups;
    /* Products are ahead by so many that all on the way have places of their own. */
    const int count = steps * parts, places = count > INTS_STEPS ? count / 2 : count,
              ahead = MIN(INTS_AHEAD, places - 1);
    const size_t units = parts == 1 ? AMX_TILE : INT4_STEP_UNITS;
    TILE_LOAD(4, left->at, left->ld);
    if (steps > 1) TILE_LOAD(5, left->at + left->step, left->ld);
    if (steps > 2) TILE_LOAD(6, left->at + 2 * left->step, left->ld);
    if (steps > 3) TILE_LOAD(7, left->at + 3 * left->step, left->ld);
    const float *left_scale = p->left_scale[g];
    const uint32_t(*right)[AMX_TILE] = p->right + g * units;
    const float(*right_scale)[AMX_TILE] = p->right_scale + g * (size_t)parts;
#define RIGHT_OF(s) (right + (size_t)(s) / (size_t)parts * units + (size_t)(s) % (size_t)parts * INT4_UNITS)
#pragma GCC unroll 8
    for (int s = 0; s < ahead; s++) ints_multiply(s / parts, s, RIGHT_OF(s), p->products[s]);
    for (size_t t = 0; t < p->tiles; t++) {
        Vec sums[AMX_TILE];
        IntsPlace place = ints_place(a, p, left->i, t);
#pragma GCC unroll 16
        for (int l = 0; l < AMX_TILE; l++) sums[l] = first ? vec_set1(0) : vec_load(p->sums[t][l]);
        if (last)
#pragma GCC unroll 16
            for (size_t l = 0; l < AMX_TILE; l++) __builtin_prefetch(place.y + l * a->ldy);
#pragma GCC unroll 8
        for (int s = 0; s < count; s++) {
            const int soon = (s + ahead) % count;
            for (size_t l = t; parts == 1 && a->turned && l < AMX_TILE; l += p->tiles) /* not in a burst */
                __builtin_prefetch(left->soon + (size_t)s * INT8_GROUP + l * left->ld_soon, 0, 2);
            if (s + ahead == count) right += p->groups * units;
            if (s + ahead < count || t + 1 < p->tiles)
                ints_multiply(soon / parts, soon % places, RIGHT_OF(soon), p->products[soon % places]);
            Vec scale = vec_load(right_scale[s]);
#pragma GCC unroll 16
            for (int l = 0; l < AMX_TILE; l++)
                sums[l] = vec_fma(_mm512_cvtepi32_ps(_mm512_load_si512(p->products[s % places][l])),
                                  vec_mul(scale, vec_set1(left_scale[s / parts * AMX_TILE + l])), sums[l]);
        }
        if (ahead == 0) right += p->groups * units;
        right_scale += p->groups * (size_t)parts;
        if (last)
            ints_store_sums(a, &place, sums);
        else
#pragma GCC unroll 16
            for (int l = 0; l < AMX_TILE; l++) vec_store(p->sums[t][l], sums[l]);
    }
#undef RIGHT_OF
}

/* Not inlined: beside anything else gcc 12 no longer keeps the sums in registers. */
#define INTS_STEPS_OF(parts, steps)                                                                                    \
    static __attribute__((noinline)) void ints##parts##_steps##steps(const IntsGemm *a, IntsPanel *p, size_t g,        \
                                                                     const IntsLeft *left) {                           \
        ints_steps(parts, steps, a, p, g, left);                                                                       \
    }
INTS_STEPS_OF(1, 1)
INTS_STEPS_OF(1, 2)
INTS_STEPS_OF(1, 3)
INTS_STEPS_OF(1, 4)
INTS_STEPS_OF(2, 1)
INTS_STEPS_OF(2, 2)
INTS_STEPS_OF(2, 3)
INTS_STEPS_OF(2, 4)

/* Sums that y has of the groups before. */
static void ints_resume(const IntsGemm *a, IntsPanel *p, size_t i) {
    for (size_t t = 0; t < p->tiles; t++) {
        IntsPlace place = ints_place(a, p, i, t);
        __m512i r[AMX_TILE];
#pragma GCC unroll 16
        for (size_t l = 0; l < AMX_TILE; l++)
            r[l] = _mm512_castps_si512(vec_load_n(place.y + MIN(l, place.rows - 1) * a->ldy, (int)place.columns));
        if (a->turned) ints_transpose(r);
#pragma GCC unroll 16
        for (size_t l = 0; l < AMX_TILE; l++) _mm512_store_si512(p->sums[t][l], r[l]);
    }
}

/* Rows i.. of the left, 16 at most, and all of the panel. */
static void ints_left(const IntsGemm *a, IntsPanel *p, size_t i) {
    static void (*const many[2][INTS_STEPS])(const IntsGemm *, IntsPanel *, size_t, const IntsLeft *) = {
        {ints1_steps1, ints1_steps2, ints1_steps3, ints1_steps4},
        {ints2_steps1, ints2_steps2, ints2_steps3, ints2_steps4}};
    size_t rows = tile_left(a->left.rows, i);
    ints_scales(a, p, &a->left, i, p->left_scale);
    if (p->g0) ints_resume(a, p, i);
    for (size_t g = 0, steps; g < p->groups; g += steps) {
        size_t rest = p->groups - g, parts = (rest + INTS_STEPS - 1) / INTS_STEPS;
        steps = (rest + parts - 1) / parts;
        const char *at = (const char *)a->left.codes + i * a->k + (p->g0 + g) * INT8_GROUP;
        IntsLeft left = {at, a->k, INT8_GROUP, at + AMX_TILE * a->k, a->k, i};
        if (rows < AMX_TILE) {
            for (size_t s = 0; s < steps; s++) tile_copy(at + s * INT8_GROUP, a->k, rows, AMX_BYTES, p->copy[s]);
            left = (IntsLeft){(const char *)p->copy, AMX_BYTES, sizeof p->copy[0], at, 0, i};
        }
        many[a->w4 ? 1 : 0][steps - 1](a, p, g, &left);
    }
}

static void ints_gemm(const IntsGemm *a) {
    const size_t packed = a->w4 ? INTS_PACKED * AMX_TILE / INT4_STEP_UNITS : INTS_PACKED;
    const size_t groups = MIN(MAX(a->groups, 1), INTS_GROUPS);
    const size_t most = MIN(packed / groups, a->turned ? INTS_X_TILES : INTS_TILES);
    IntsPanel p;
    tiles_open();
    for (p.r0 = 0; p.r0 < a->right.rows; p.r0 += p.tiles * AMX_TILE) {
        size_t left = (a->right.rows - p.r0 + AMX_TILE - 1) / AMX_TILE, panels = (left + most - 1) / most;
        p.tiles = (left + panels - 1) / panels;
        for (p.g0 = 0; p.g0 < a->groups; p.g0 += p.groups) {
            p.groups = MIN(a->groups - p.g0, groups);
            (a->w4 ? ints4_pack : ints_pack)(a, &p);
            for (size_t i = 0; i < a->left.rows; i += AMX_TILE) ints_left(a, &p, i);
        }
    }
    tiles_close();
}

static void tile_gemm_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                         const float *w_scale, float *y, int ldy) {
    IntsSide xs = {x, x_scale, (size_t)n}, ws = {w, w_scale, (size_t)n_out};
    bool turned = n <= MIN(n_out, INTS_X_ROWS);
    ints_gemm(&(IntsGemm){.left = turned ? ws : xs,
                          .right = turned ? xs : ws,
                          .k = (size_t)k,
                          .groups = (size_t)k / INT8_GROUP,
                          .turned = turned,
                          .y = y,
                          .ldy = (size_t)ldy});
}

static void tile_gemm_i4(int n, int n_out, int k, const int8_t *x, const float *x_scale, const uint8_t *w,
                         const uint16_t *w_scale, float *y, int ldy) {
    ints_gemm(&(IntsGemm){.left = {x, x_scale, (size_t)n},
                          .right = {NULL, NULL, (size_t)n_out},
                          .w4 = w,
                          .w4_scale = w_scale,
                          .k = (size_t)k,
                          .groups = (size_t)k / INT8_GROUP,
                          .y = y,
                          .ldy = (size_t)ldy});
}
