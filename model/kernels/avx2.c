#if defined(__x86_64__)

#include "model/kernels/vectors/lanes_avx2.h"

#include "model/kernels/body.h"

const Kernels kernels_avx2 = KERNELS_TABLE("avx2");

#endif
