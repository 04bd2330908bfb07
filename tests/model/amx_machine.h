/* amx_machine: what tests of the amx level look for on a machine. Not to be compiled for AVX-512. */
#ifndef NOISED_AMX_MACHINE_H
#define NOISED_AMX_MACHINE_H

#include "model/kernels/kernels.h"

#include <string.h>

/* Whether it has the AVX-512 that the code around the tiles needs; hardware: its level amx, NULL without tiles. */
static inline bool amx_can_be_modelled(const Kernels **hardware) {
    const Kernels *levels[KERNELS_LEVELS];
    bool avx512 = false;
    *hardware = NULL;
    for (int i = 0, n = kernels_available(levels); i < n; i++) {
        avx512 |= !strcmp(levels[i]->name, "avx512");
        if (!strcmp(levels[i]->name, "amx")) *hardware = levels[i];
    }
    return avx512;
}

#endif
