/* int4_body: products of int8 rows with I4 weights (tensor.h). Outputs lie across lanes in the file already, so weights
 * are read in place, once for INT4_ROWS rows of x. What is multiplied is code + 8, which is never negative; that many x
 * too much are taken off again. Sums of a group are exact integers, as in int8_body.h. */

enum {
    INT4_PIECE = 256,
    INT4_CACHED = 192 << 10
};                             /* groups at a time; bytes of W that all rows meet before the next */
enum { INT4_AHEAD = 8 << 10 }; /* bytes of W that are fetched before they are met */
enum { INT4_STREAMS = 4, INT4_TILE = MAX(INT4_ROWS * INT4_VECS, INT4_STREAMS) };

typedef struct Int4Gemm {
    size_t n, n_out, k, groups;
    const int8_t *x;
    const float *x_scale;
    const uint8_t *w;
    const uint16_t *w_scale;
    float *y;
    size_t ldy;
} Int4Gemm;

/* Rows i.., groups g0..; less: -8 times the sum of each group of x. */
typedef struct Int4Piece {
    size_t i, g0, groups;
    int32_t less[INT4_ROWS][INT4_PIECE];
} Int4Piece;

INLINE void int4_begin(int rows, const Int4Gemm *a, Int4Piece *p) {
    for (size_t r = 0; r < (size_t)rows; r++)
        for (size_t g = 0; g < p->groups; g++) {
            const int8_t *x = a->x + (p->i + r) * a->k + (p->g0 + g) * INT4_GROUP;
            int32_t sum = 0;
            for (int e = 0; e < INT4_GROUP; e++) sum += x[e];
            p->less[r][g] = -8 * sum;
        }
}

/* Outputs o.. of `vecs` vectors, so many outputs apart. */
INLINE void int4_tile(int rows, int vecs, const Int4Gemm *a, const Int4Piece *p, size_t o, size_t apart) {
    Vec sums[INT4_TILE];
    float *y = a->y + p->i * a->ldy + o;
    const int8_t *x = a->x + p->i * a->k;
    /* In the order it lies in, for memory brings lines faster then: what follows, or the next as many vectors. */
    const size_t tile = (size_t)vecs * a->groups * INT4_BLOCK;
    const uint8_t *next = a->w + o / LANES * a->groups * INT4_BLOCK + (size_t)vecs * p->g0 * INT4_BLOCK;
    const bool near = vecs == 1 || stays_near(tile), stream = apart > LANES;
    const size_t ld = apart / LANES * a->groups; /* blocks */
    next += vecs == 1 ? INT4_AHEAD : tile;
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++)
        sums[t] = p->g0 ? vec_load(y + (size_t)(t / vecs) * a->ldy + (size_t)(t % vecs) * apart) : vec_set1(0);
    for (size_t g = 0; g < p->groups; g++) {
        size_t block = o / LANES * a->groups + p->g0 + g;
        const int8_t *xg = x + (p->g0 + g) * INT4_GROUP;
        Ints acc[INT4_TILE];
#pragma GCC unroll 32
        for (int t = 0; t < rows * vecs; t++) acc[t] = ints4_start(p->less[t / vecs][g]);
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            Ints low[INT4_TILE], high[INT4_TILE];
#pragma GCC unroll 4
            for (int c = 0; c < vecs; c++) {
                const uint8_t *w = a->w + (block + (size_t)c * ld) * INT4_BLOCK + q * INT4_BLOCK / 4;
                if (stream) __builtin_prefetch(w + STREAM_AHEAD);
                if (!stream && near) __builtin_prefetch(next);
                if (!stream && !near) __builtin_prefetch(next, 0, 2);
                next += INT4_BLOCK / 4;
                low[c] = ints_keep(ints4_low(w));
                high[c] = ints_keep(ints4_high(w));
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                const int8_t *at = xg + (size_t)r * a->k + 4 * q;
                Ints first = ints4_set1(at), second = ints4_set1(at + INT4_GROUP / 2);
#pragma GCC unroll 4
                for (int c = 0; c < vecs; c++) {
                    acc[r * vecs + c] = ints4_dot(acc[r * vecs + c], first, low[c]);
                    acc[r * vecs + c] = ints4_dot(acc[r * vecs + c], second, high[c]);
                }
            }
        }
#pragma GCC unroll 32
        for (int t = 0; t < rows * vecs; t++) {
            size_t r = (size_t)(t / vecs), c = (size_t)(t % vecs);
            Vec w_scale = vec_load_f16(a->w_scale + (block + c * ld) * INT4_OUTS);
            Vec scale = vec_mul(vec_set1(a->x_scale[(p->i + r) * a->groups / 2 + (p->g0 + g) / 2]), w_scale);
            sums[t] = vec_fma(ints_to_vec(ints4_end(acc[t], p->less[r][g])), scale, sums[t]);
        }
    }
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++)
        vec_store(y + (size_t)(t / vecs) * a->ldy + (size_t)(t % vecs) * apart, sums[t]);
}

INLINE void int4_outs(int rows, int vecs, const Int4Gemm *a, size_t i, size_t o0, size_t o1, bool streams) {
    const size_t outs = (size_t)vecs * LANES, tiles = (o1 - o0) / outs;
    Int4Piece p = {.i = i};
    do {
        p.groups = MIN(a->groups - p.g0, INT4_PIECE);
        int4_begin(rows, a, &p);
        for (size_t t = 0; t < tiles; t++)
            int4_tile(rows, vecs, a, &p, o0 + t * (streams ? LANES : outs), streams ? tiles * LANES : LANES);
        for (size_t o = o0 + tiles * outs; o < o1; o += LANES) int4_tile(rows, 1, a, &p, o, LANES);
        p.g0 += p.groups;
    } while (p.g0 < a->groups);
}

/* Of one row memory decides: of one stream, which others than Intel give faster than two, or of some. */
INLINE void int4_rows(int rows, const Int4Gemm *a, size_t i, size_t o0, size_t o1) {
    if (rows > 1)
        int4_outs(rows, INT4_VECS, a, i, o0, o1, false);
    else if (reads_in_streams)
        int4_outs(1, INT4_STREAMS, a, i, o0, o1, true);
    else
        int4_outs(1, 1, a, i, o0, o1, false);
}

static void gemm_i4(int n, int n_out, int k, const int8_t *x, const float *x_scale, const uint8_t *w,
                    const uint16_t *w_scale, float *y, int ldy) {
    Int4Gemm a = {(size_t)n, (size_t)n_out, (size_t)k, (size_t)(k / INT4_GROUP), x, x_scale, w, w_scale,
                  y,         (size_t)ldy};
    size_t block = MAX(INT4_CACHED / (a.k / 2) / (INT4_VECS * LANES), 1) * INT4_VECS * LANES;
    for (size_t o0 = 0; o0 < a.n_out; o0 += block) {
        size_t o1 = MIN(o0 + block, a.n_out);
        for (size_t i = 0, rows; i < a.n; i += rows) {
            size_t left = a.n - i, tiles = (left + INT4_ROWS - 1) / INT4_ROWS;
            rows = (left + tiles - 1) / tiles;
            switch (rows) {
            case 1:
                int4_rows(1, &a, i, o0, o1);
                break;
            case 2:
                if (INT4_ROWS >= 2) int4_rows(MIN(2, INT4_ROWS), &a, i, o0, o1);
                break;
            case 3:
                if (INT4_ROWS >= 3) int4_rows(MIN(3, INT4_ROWS), &a, i, o0, o1);
                break;
            case 4:
                if (INT4_ROWS >= 4) int4_rows(MIN(4, INT4_ROWS), &a, i, o0, o1);
                break;
            case 5:
                if (INT4_ROWS >= 5) int4_rows(MIN(5, INT4_ROWS), &a, i, o0, o1);
                break;
            }
        }
    }
}
