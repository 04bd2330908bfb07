#include "lanes_ref.h"

#include "body.h"

const Kernels kernels_ref = KERNELS_TABLE("ref");
