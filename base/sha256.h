/* sha256: FIPS 180-4. Plain C, about 0.3 GB/s: weights are hashed once when written, and when opened only if the file
 * does not carry its own digest. */
#ifndef NOISED_SHA256_H
#define NOISED_SHA256_H

#include "base/err.h"

typedef struct Sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} Sha256;

void sha256_init(Sha256 *s);
void sha256_add(Sha256 *s, const void *data, size_t n);
void sha256_hex(Sha256 *s, char hex[65]); /* ends the computation; 64 digits and NUL */

#endif
