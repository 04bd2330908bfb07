/* train_body: the packed GEMM of training; see train_gemm.h for what it computes.
 *
 * An operand is packed into panels of `width` vectors (rows of A: TILE_ROWS, columns of B: TILE_COLUMNS), element k of
 * all vectors of a panel side by side: [panels][units][width]. A unit is one f32, or two neighbours of k rounded to
 * bf16, the even one in the low half. A tile of C takes its units in order, so its bits depend on k alone. What a level
 * does in words of its own is in units_*.h. */

enum { TILE_COLUMNS = TILE_VECS * LANES };

/* ---- packing ---- */

/* n <= LANES units of one vector, whose elements are neighbours; `odd`: the last one lacks its odd half. */
INLINE void units_along(bool pairs, const float *x, int n, bool odd, uint32_t *out) {
    if (!pairs) {
        memcpy(out, x, (size_t)n * sizeof *out);
        return;
    }
    int whole = n - odd;
    if (whole == LANES) {
        pairs_along(x, out);
        return;
    }
    for (int u = 0; u < whole; u++) out[u] = round_to_upper(x[2 * u]) >> 16 | round_to_upper(x[2 * u + 1]);
    if (odd) out[whole] = round_to_upper(x[2 * whole]) >> 16;
}

/* One unit of n <= LANES vectors, whose elements of the same k are neighbours; `next` holds the odd half or is NULL. */
INLINE void units_across(bool pairs, const float *x, const float *next, int n, uint32_t *out) {
    if (!pairs) {
        memcpy(out, x, (size_t)n * sizeof *out);
        return;
    }
    if (next)
        pairs_across(x, next, n, out);
    else
        for (int i = 0; i < n; i++) out[i] = round_to_upper(x[i]) >> 16;
}

/* Units u0..u0+nu-1 of vectors i0..i0+ni-1, ni <= most, as b[unit][vector], of vectors below `most` zero where there is
 * none. */
INLINE void block_load(bool pairs, int most, const PackSource *s, int i0, int ni, int u0, int nu, UnitBlock b) {
    int per = pairs ? 2 : 1, k0 = u0 * per;
    if (ni < most || nu < LANES) memset(b, 0, sizeof(UnitBlock));
    if (s->step == 1) {
        const float *x = s->x + (size_t)i0 * s->stride + k0;
        bool odd = pairs && k0 + nu * per > s->k;
        if (ni == most && nu == LANES && !odd) {
            for (int i = 0; i < most; i++) units_along(pairs, x + (size_t)i * s->stride, LANES, false, b[i]);
        } else {
            for (int i = 0; i < ni; i++) units_along(pairs, x + (size_t)i * s->stride, nu, odd, b[i]);
        }
        block_transpose(b);
        return;
    }
    for (int u = 0; u < nu; u++) {
        const float *x = s->x + (size_t)(k0 + u * per) * s->step + i0;
        const float *next = k0 + u * per + 1 < s->k ? x + s->step : NULL;
        if (ni == most)
            units_across(pairs, x, next, most, b[u]);
        else
            units_across(pairs, x, next, ni, b[u]);
    }
}

/* Blocks of whole panels are taken in the order in which the source lies in memory. */
INLINE void pack(bool pairs, int width, const PackSource *s, uint32_t *out) {
    int units = pairs ? (s->k + 1) / 2 : s->k, run = MIN(width, LANES);
    const int most = LANES / run * run; /* vectors of a block */
    int across = (s->n + most - 1) / most, along = (units + LANES - 1) / LANES;
    size_t panel = (size_t)units * (size_t)width;
    UnitBlock b = {{0}};
    for (int block = 0; block < across * along; block++) {
        int i0 = most * (s->step == 1 ? block / along : block % across);
        int u0 = LANES * (s->step == 1 ? block % along : block / across);
        int ni = MIN(most, s->n - i0), nu = MIN(LANES, units - u0);
        block_load(pairs, most, s, i0, ni, u0, nu, b);
        for (int v = 0; v < ni; v += run) {
            uint32_t *to = out + (size_t)((i0 + v) / width) * panel + (size_t)u0 * (size_t)width + (i0 + v) % width;
            for (int u = 0; u < nu; u++) memcpy(to + u * width, b[u] + v, (size_t)run * sizeof *to);
        }
    }
}

static void pack_rows(bool pairs, const PackSource *s, uint32_t *out) {
    if (pairs)
        pack(true, TILE_ROWS, s, out);
    else
        pack(false, TILE_ROWS, s, out);
}

static void pack_columns(bool pairs, const PackSource *s, uint32_t *out) {
    if (pairs)
        pack(true, TILE_COLUMNS, s, out);
    else
        pack(false, TILE_COLUMNS, s, out);
}

/* n <= LANES */
INLINE void words_copy(int n, const uint32_t *x, uint32_t *out) {
    const float *from = (const float *)(const void *)x;
    float *to = (float *)(void *)out;
    if (n == LANES)
        vec_store(to, vec_load(from));
    else
        vec_store_n(to, vec_load_n(from, n), n);
}

static void pair_row(int n, const float *x, uint32_t *out) {
    for (int k = 0; k < n; k += 2 * LANES, out += LANES)
        if (n - k >= 2 * LANES)
            pairs_along(x + k, out);
        else
            units_along(true, x + k, (n - k + 1) / 2, n % 2, out);
}

static void pair_with(int n, const float *x, const float *next, uint32_t *out) {
    int i = 0;
    for (; i + LANES <= n; i += LANES) pairs_across(x + i, next + i, LANES, out + i);
    for (; i < n; i++) out[i] = round_to_upper(x[i]) >> 16 | round_to_upper(next[i]);
}

static void transpose(int n, int k, size_t stride, const uint32_t *x, uint32_t *out) {
    UnitBlock b = {{0}};
    for (int i0 = 0; i0 < n; i0 += LANES)
        for (int e0 = 0; e0 < k; e0 += LANES) {
            int ni = MIN(LANES, n - i0), ne = MIN(LANES, k - e0);
            for (int i = 0; i < ni; i++) words_copy(ne, x + (size_t)(i0 + i) * stride + e0, b[i]);
            block_transpose(b);
            for (int e = 0; e < ne; e++) words_copy(ni, b[e], out + (e0 + e) * n + i0);
        }
}

/* ---- tiles ---- */

typedef enum UnitKind { UNIT_F32, UNIT_PAIR } UnitKind;

INLINE Vec unit_multiply(UnitKind kind, Vec x, Vec w, Vec sum) {
    if (kind == UNIT_F32) return vec_fma(x, w, sum);
    return unit_pair_multiply(x, w, sum);
}

/* C of `rows` x (vecs - 1) * LANES + lanes, from a panel of either operand. */
INLINE void tile(UnitKind kind, int vecs, int units, Panels a, Panels b, float *c, size_t ldc, int rows, int lanes,
                 bool add) {
    Vec acc[TILE_ROWS * TILE_VECS];
    const float *left[TILE_ROWS], *right = (const float *)(const void *)b.at;
    const size_t step = a.row ? 1 : TILE_ROWS;
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
        left[r] = (const float *)(const void *)a.at + (a.row ? (size_t)MIN(r, rows - 1) * a.row : (size_t)r);
#pragma GCC unroll 32
    for (int t = 0; t < TILE_ROWS * vecs; t++) acc[t] = vec_set1(0);
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
        if (add && r < rows) {
            const float *row = c + (size_t)r * ldc;
#pragma GCC unroll 4
            for (int v = 0; v < vecs - 1; v++) acc[r * vecs + v] = vec_load(row + v * LANES);
            acc[r * vecs + vecs - 1] = vec_load_n(row + (vecs - 1) * LANES, lanes);
        }
#pragma GCC unroll 4
    for (int u = 0; u < units; u++) {
        Vec w[TILE_VECS];
        const float *bu = right + (b.taps ? (size_t)b.taps[u] : (size_t)u * TILE_COLUMNS);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) w[v] = vec_keep(vec_load(bu + v * LANES));
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++) {
            Vec x = vec_set1(left[r][(size_t)u * step]);
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) acc[r * vecs + v] = unit_multiply(kind, x, w[v], acc[r * vecs + v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++)
        if (r < rows) {
            float *row = c + (size_t)r * ldc;
#pragma GCC unroll 4
            for (int v = 0; v < vecs - 1; v++) vec_store(row + v * LANES, acc[r * vecs + v]);
            vec_store_n(row + (vecs - 1) * LANES, acc[r * vecs + vecs - 1], lanes);
        }
}

INLINE void multiply_tiles(UnitKind kind, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    for (int j = 0; j < n; j += TILE_COLUMNS, b.at += b.words) {
        Panels left = a;
        int columns = MIN(TILE_COLUMNS, n - j), vecs = (columns + LANES - 1) / LANES;
        int lanes = columns - (vecs - 1) * LANES;
        for (int i = 0; i < m; i += TILE_ROWS, left.at += a.words) {
            float *at = c + (size_t)i * ldc + j;
            int rows = MIN(TILE_ROWS, m - i);
            if (vecs == 1)
                tile(kind, 1, units, left, b, at, ldc, rows, lanes, add);
            else if (vecs == 2)
                tile(kind, MIN(2, TILE_VECS), units, left, b, at, ldc, rows, lanes, add);
            else if (vecs == 3)
                tile(kind, MIN(3, TILE_VECS), units, left, b, at, ldc, rows, lanes, add);
            else
                tile(kind, TILE_VECS, units, left, b, at, ldc, rows, lanes, add);
        }
    }
}

static void multiply(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    if (!pairs) {
        multiply_tiles(UNIT_F32, m, n, units, a, b, c, ldc, add);
        return;
    }
    unsigned before = pairs_begin();
    multiply_tiles(UNIT_PAIR, m, n, units, a, b, c, ldc, add);
    pairs_end(before);
}
