/* runtime: what libgomp and OpenBLAS read from the environment before main runs, set to what this program wants. */
#ifndef NOISED_RUNTIME_H
#define NOISED_RUNTIME_H

/* Call first in main. Where the user has not said otherwise, sets
 *   GOMP_SPINCOUNT     a short wait of idle team members: the default burns whole cores between steps and starves
 *                      every other thread when there are more of them than processors;
 *   OPENBLAS_CORETYPE  SkylakeX on processors with AVX-512 that OpenBLAS does not know by name (it falls back to AVX2
 *                      kernels there: half the speed),
 * and starts the program again under that environment, once. */
void runtime_tune(char **argv);

#endif
