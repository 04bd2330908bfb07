/* units_pairs: pairs of bf16 multiplied where no instruction does it, on x86-64; see units_ref.h. Its includer defines
 * vec_upper and vec_lower, the odd and the even elements of pairs as floats. */

INLINE Vec unit_pair_multiply(Vec x, Vec w, Vec sum) {
    return vec_fma(vec_lower(x), vec_lower(w), vec_fma(vec_upper(x), vec_upper(w), sum));
}

/* Denormals are zero, in and out, while pairs are multiplied. The barriers keep the products between the two. */
INLINE unsigned pairs_begin(void) {
    enum { DENORMALS_ARE_ZERO = 1 << 6, FLUSH_TO_ZERO = 1 << 15 };
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | DENORMALS_ARE_ZERO | FLUSH_TO_ZERO);
    __asm__ volatile("" ::: "memory");
    return before;
}
INLINE void pairs_end(unsigned before) {
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(before);
}
