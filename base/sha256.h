/* sha256: FIPS 180-4, by libcrypto's plain functions: 1 to 2 GB/s where the CPU has instructions for it, 0.4 elsewhere.
 * Nothing is allocated and nothing fails, so that files are proved where no memory is left. (What OpenSSL 3 would
 * rather have called, EVP, takes memory at every beginning.) */
#ifndef NOISED_SHA256_H
#define NOISED_SHA256_H

#include "base/err.h"

#include <openssl/sha.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 65 };

typedef struct Sha256 {
    SHA256_CTX state;
} Sha256;

void sha256_init(Sha256 *s);
void sha256_add(Sha256 *s, const void *data, size_t n);
/* Of what was added so far; more may be added. */
void sha256_peek(const Sha256 *s, unsigned char digest[SHA256_BYTES]);

void sha256_print(const unsigned char digest[SHA256_BYTES], char hex[SHA256_HEX]); /* 64 digits and NUL */
void sha256_hex(const Sha256 *s, char hex[SHA256_HEX]);                            /* peek and print */
/* Of a whole file of at most max bytes. */
int sha256_file(const char *path, size_t max, char hex[SHA256_HEX], Err *err);

#endif
