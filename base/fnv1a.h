/* fnv1a: a number for a text, the same on every machine and for ever (docs/spec.md, section 7: the initial values of a
 * tensor hang on its name's). It is no cryptographic hash: two texts of one number are easily found. */
#ifndef NOISED_FNV1A_H
#define NOISED_FNV1A_H

#include <stdint.h>

static inline uint32_t fnv1a(const char *s) {
    uint32_t h = 2166136261u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

#endif
