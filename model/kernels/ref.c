#include "model/kernels/vectors/lanes_ref.h"

#include "model/kernels/body.h"

const Kernels kernels_ref = KERNELS_TABLE("ref");
