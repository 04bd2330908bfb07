#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include "base/files.h"

#include <stdlib.h>

void sha256_init(Sha256 *s) { SHA256_Init(&s->state); }

void sha256_add(Sha256 *s, const void *data, size_t n) { SHA256_Update(&s->state, data, n); }

void sha256_peek(const Sha256 *s, unsigned char digest[SHA256_BYTES]) {
    Sha256 copy = *s;
    SHA256_Final(digest, &copy.state);
}

void sha256_print(const unsigned char digest[SHA256_BYTES], char hex[SHA256_HEX]) {
    for (int i = 0; i < SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void sha256_hex(const Sha256 *s, char hex[SHA256_HEX]) {
    unsigned char digest[SHA256_BYTES];
    sha256_peek(s, digest);
    sha256_print(digest, hex);
}

int sha256_file(const char *path, size_t max, char hex[SHA256_HEX], Err *err) {
    size_t n;
    char *text = file_read(path, max, &n, err);
    if (!text) return -1;
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, text, n);
    sha256_hex(&hash, hex);
    free(text);
    return 0;
}
