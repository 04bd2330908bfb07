#if defined(__x86_64__)

#include "model/kernels/vectors/lanes_avx512.h"

#include "model/kernels/body.h"

const Kernels kernels_avx512 = KERNELS_TABLE("avx512");

#endif
