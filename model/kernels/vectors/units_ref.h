/* units_ref: what the training product and the noise need of a level besides its lanes; the contract of units_avx2.h
 * and units_avx512.h.
 *
 * The product of two units of bf16 pairs is that of vdpbf16ps: the odd product is added, then the even one, each as a
 * fused multiply-add with denormals taken and made as zero. avx2 and avx512 do it by the control register, ref in so
 * many words. */

enum { TILE_ROWS = 1, TILE_VECS = 1 };

INLINE void block_transpose(UnitBlock b) { plain_transpose(b); }

/* LANES pairs of the 2 LANES neighbours at x; of n lanes of x and next. */
INLINE void pairs_along(const float *x, uint32_t *out) { plain_pairs_along(x, out); }
INLINE void pairs_across(const float *x, const float *next, int n, uint32_t *out) {
    plain_pairs_across(x, next, n, out);
}

INLINE float flush(float a) { return __builtin_fabsf(a) < 0x1p-126f ? __builtin_copysignf(0.0f, a) : a; }
INLINE Vec vec_flush(Vec a) {
    for (int l = 0; l < LANES; l++) a.v[l] = flush(a.v[l]);
    return a;
}
INLINE Vec vec_upper(Vec a) {
    for (int l = 0; l < LANES; l++) a.v[l] = flush(float_of_bits(bits_of_float(a.v[l]) & 0xffff0000));
    return a;
}
INLINE Vec vec_lower(Vec a) {
    for (int l = 0; l < LANES; l++) a.v[l] = flush(float_of_bits(bits_of_float(a.v[l]) << 16));
    return a;
}

INLINE Vec unit_pair_multiply(Vec x, Vec w, Vec sum) {
    return vec_flush(vec_fma(vec_lower(x), vec_lower(w), vec_flush(vec_fma(vec_upper(x), vec_upper(w), sum))));
}

/* Around all products of pairs; what the first returns goes to the second. */
INLINE unsigned pairs_begin(void) { return 0; }
INLINE void pairs_end(unsigned before) { (void)before; }

/* Eight draws to eight Gaussians. */
INLINE void gaussian8(const uint16_t *draws, float *out) {
    for (int t = 0; t < 8; t++) {
        float q = gaussian_quantiles[draws[t] >> 3 & 4095];
        out[t] = draws[t] >> 15 ? -q : q;
    }
}
