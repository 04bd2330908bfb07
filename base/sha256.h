/* sha256: FIPS 180-4, by libcrypto: 1 to 2 GB/s where the CPU has instructions for it, 0.4 elsewhere. Without
 * memory, which libcrypto takes at init and peek, they do what an x-function does (base/memory.h). */
#ifndef NOISED_SHA256_H
#define NOISED_SHA256_H

#include "base/err.h"

enum { SHA256_BYTES = 32, SHA256_HEX = 65 };

typedef struct Sha256 {
    struct evp_md_ctx_st *state; /* NULL when ended */
} Sha256;

void sha256_init(Sha256 *s);
void sha256_restart(Sha256 *s); /* as after init */
void sha256_add(Sha256 *s, const void *data, size_t n);
/* Of what was added so far; more may be added. */
void sha256_peek(const Sha256 *s, unsigned char digest[SHA256_BYTES]);
void sha256_final(Sha256 *s, unsigned char digest[SHA256_BYTES]); /* only restart or end may follow */
void sha256_end(Sha256 *s);                                       /* harmless when ended */

void sha256_print(const unsigned char digest[SHA256_BYTES], char hex[SHA256_HEX]); /* 64 digits and NUL */
void sha256_hex(Sha256 *s, char hex[SHA256_HEX]);                                  /* final, print and end */
/* Of a whole file of at most max bytes. */
int sha256_file(const char *path, size_t max, char hex[SHA256_HEX], Err *err);

#endif
