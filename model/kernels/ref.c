#include "model/kernels/lanes_ref.h"

#include "model/kernels/body.h"

const Kernels kernels_ref = KERNELS_TABLE("ref");
