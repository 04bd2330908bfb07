#if defined(__aarch64__)

#include "model/kernels/vectors/lanes_neon.h"

#include "model/kernels/body.h"

const Kernels kernels_neon = KERNELS_TABLE("neon");

#endif
