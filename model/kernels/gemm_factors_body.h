/* gemm_factors_body: what the products of serving are made of. */

enum { CACHE_LINE = 64 };

/* Whether so many bytes of W in use and as many fetched ahead stay in the first level. Beyond half of it they push each
 * other out: a Zen 4, of 32 KiB, read rows of 768 codes, sixteen at a time, at 23 GB/s instead of 41. */
INLINE bool stays_near(size_t bytes) { return 2 * bytes <= first_level_bytes / 2; }

/* Where W is read in streams (kernels.h) the outputs of a tile lie apart, each a place that goes on to the next tile's.
 * So many bytes ahead it is asked for where the core does not by itself. */
enum { STREAM_AHEAD = 2 << 10 };

typedef struct Gemm {
    int n, n_out, k, block; /* block: outputs at a time of dot products */
    bool streams;           /* W is read in them */
    const void *x, *w;
    size_t ldx;
    float *y;
    size_t ldy;
} Gemm;

INLINE Vec element_load(Dtype type, const void *p) {
    if (type == DTYPE_BF16) return vec_load_bf16(p);
    if (type == DTYPE_F16) return vec_load_f16(p);
    return vec_load(p);
}

INLINE Vec element_load_n(Dtype type, const void *p, int n) {
    if (type == DTYPE_BF16) return vec_load_bf16_n(p, n);
    if (type == DTYPE_F16) return vec_load_f16_n(p, n);
    return vec_load_n(p, n);
}

INLINE size_t element_size(Dtype type) { return type == DTYPE_F32 ? sizeof(float) : sizeof(uint16_t); }

INLINE const void *element_at(Dtype type, const void *base, size_t i) {
    return (const char *)base + i * element_size(type);
}

/* What lanes multiply: one element each or, of bf16, a pair, which takes BF16_PARTS multiplications. */
INLINE int factor_width(Dtype type) { return type == DTYPE_BF16 ? 2 * LANES : LANES; }
INLINE int factor_parts(Dtype type) { return type == DTYPE_BF16 ? BF16_PARTS : 1; }

/* x may hold its factors already, part after part: then it is f32. */
INLINE Vec factor_load(Dtype type, int part, const void *p) {
    return type == DTYPE_BF16 ? vec_load_pairs(p, part)
                              : element_load(type, element_at(type, p, (size_t)(part * LANES)));
}

INLINE Vec factor_load_n(Dtype type, int part, const void *p, int n) {
    return type == DTYPE_BF16 ? vec_load_pairs_n(p, n, part) : element_load_n(type, p, n);
}

INLINE Vec factor_fma(Dtype type, Vec x, Vec w, Vec acc) {
    return type == DTYPE_BF16 ? vec_fma_pairs(x, w, acc) : vec_fma(x, w, acc);
}
