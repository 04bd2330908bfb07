#if defined(__x86_64__)

#include "lanes_avx512.h"

#include "body.h"

const Kernels kernels_avx512bf16 = KERNELS_TABLE("avx512bf16");

#endif
