/* The level avx2vnni with its one instruction in steps that AVX2 has: the rest of it is tested where no processor has
 * it. */
#if defined(__x86_64__)

#include <immintrin.h>

/* Bytes 0 and 2 of a lane, then 1 and 3; no product of two and no sum of four leaves its bits. */
static inline __m256i dot4_in_steps(__m256i acc, __m256i u, __m256i s) {
    __m256i even =
        _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}
#define DOT4 dot4_in_steps
#define kernels_avx2vnni kernels_avx2vnni_in_steps
#include "model/kernels/avx2vnni.c"

#endif
