/* units_x86: what units_avx2.h and units_avx512.h share; see units_ref.h for what each function means. */

/* Denormals are zero, in and out, from the one to the other. The barriers keep what is loaded and stored between them.
 */
INLINE unsigned denormals_are_zero(void) {
    enum { DENORMALS_ARE_ZERO = 1 << 6, FLUSH_TO_ZERO = 1 << 15 };
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | DENORMALS_ARE_ZERO | FLUSH_TO_ZERO);
    __asm__ volatile("" ::: "memory");
    return before;
}
INLINE void denormals_are_back(unsigned before) {
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(before);
}

#ifndef __AVX512BF16__
/* Pairs of bf16 without an instruction: vec_upper and vec_lower are their odd and even elements. */
INLINE Vec unit_pair_multiply(Vec x, Vec w, Vec sum) {
    return vec_fma(vec_lower(x), vec_lower(w), vec_fma(vec_upper(x), vec_upper(w), sum));
}

INLINE unsigned pairs_begin(void) { return denormals_are_zero(); }
INLINE void pairs_end(unsigned before) { denormals_are_back(before); }
#endif

INLINE __m128 quantiles4(uint64_t k) {
    const float *q = gaussian_quantiles;
    __m128 v = _mm_load_ss(q + (k >> 3 & 4095));
    v = _mm_insert_ps(v, _mm_load_ss(q + (k >> 19 & 4095)), 0x10);
    v = _mm_insert_ps(v, _mm_load_ss(q + (k >> 35 & 4095)), 0x20);
    return _mm_insert_ps(v, _mm_load_ss(q + (k >> 51 & 4095)), 0x30);
}

/* Eight draws to eight Gaussians. Single loads: a gather takes 1.6 times as long on Zen 5, and far longer than that
 * on CPUs with the microcode against gather data sampling. */
INLINE void gaussian8(const uint16_t *draws, float *out) {
    uint64_t k[2];
    memcpy(k, draws, sizeof k);
    __m256i sign = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)draws)), 16);
    __m256 sign_bit = _mm256_castsi256_ps(_mm256_and_si256(sign, _mm256_set1_epi32(INT32_MIN)));
    _mm256_storeu_ps(out, _mm256_or_ps(_mm256_set_m128(quantiles4(k[1]), quantiles4(k[0])), sign_bit));
}
