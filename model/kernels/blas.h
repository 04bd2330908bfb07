/* blas: one product of OpenBLAS, of one shape, and the test whether it is fit for equal bits.
 *
 * What order OpenBLAS adds in depends on the shapes it is given, and which ones its kernels treat alike is nobody's
 * promise. So it is only ever given this one, on one thread, its operands padded with zeros; what is longer than
 * BLAS_DEPTH is added up piece by piece. Then an element's bits can still depend on its place in the tile and on what
 * else is in it, and whether they do is tried out. */
#ifndef NOISED_KERNELS_BLAS_H
#define NOISED_KERNELS_BLAS_H

#include <stdbool.h>

/* 2^16 multiply-adds: below 2^18 no build of OpenBLAS asks for a second thread. */
enum { BLAS_ROWS = 16, BLAS_OUTS = 64, BLAS_DEPTH = 64 };

/* c [BLAS_ROWS, BLAS_OUTS] = the products of row i of a and row o of b: a [BLAS_ROWS, BLAS_DEPTH], b [BLAS_OUTS,
 * BLAS_DEPTH]. `across`: both are transposed, [BLAS_DEPTH, BLAS_ROWS] and [BLAS_DEPTH, BLAS_OUTS]. */
typedef void BlasProduct(bool across, const float *a, const float *b, float *c);

BlasProduct blas_product; /* OpenBLAS's */

/* Whether a product of two rows has the same bits at every place of the tile, alone and among others. Takes some
 * milliseconds. */
bool blas_keeps_places(BlasProduct *product);

/* Maps the buffers that as many threads as the team has now multiply in, which OpenBLAS would map while serving. */
void blas_map_buffers(void);

/* Why the level cannot be used, naming the build of OpenBLAS; NULL if it can. */
const char *blas_fault(void);

#endif
