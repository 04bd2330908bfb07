#if defined(__x86_64__)

#include "lanes_avx2.h"

#include "body.h"

const Kernels kernels_avx2 = KERNELS_TABLE("avx2");

#endif
