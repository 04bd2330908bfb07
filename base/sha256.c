#include "base/sha256.h"

#include "base/files.h"
#include "base/memory.h"

#include <openssl/evp.h>
#include <stdlib.h>

/* libcrypto fails only without memory. */
void sha256_init(Sha256 *s) {
    s->state = EVP_MD_CTX_new();
    if (s->state && EVP_DigestInit_ex(s->state, EVP_sha256(), NULL)) return;
    sha256_end(s);
    memory_exhausted(sizeof s->state);
}

void sha256_restart(Sha256 *s) { BUG_ON(!EVP_DigestInit_ex(s->state, NULL, NULL)); }

void sha256_add(Sha256 *s, const void *data, size_t n) { BUG_ON(!EVP_DigestUpdate(s->state, data, n)); }

void sha256_peek(const Sha256 *s, unsigned char digest[SHA256_BYTES]) {
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    bool done = copy && EVP_MD_CTX_copy_ex(copy, s->state) && EVP_DigestFinal_ex(copy, digest, NULL);
    EVP_MD_CTX_free(copy);
    if (!done) memory_exhausted(sizeof s->state);
}

void sha256_final(Sha256 *s, unsigned char digest[SHA256_BYTES]) {
    BUG_ON(!EVP_DigestFinal_ex(s->state, digest, NULL));
}

void sha256_end(Sha256 *s) {
    EVP_MD_CTX_free(s->state);
    s->state = NULL;
}

void sha256_print(const unsigned char digest[SHA256_BYTES], char hex[SHA256_HEX]) {
    for (int i = 0; i < SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void sha256_hex(Sha256 *s, char hex[SHA256_HEX]) {
    unsigned char digest[SHA256_BYTES];
    sha256_final(s, digest);
    sha256_print(digest, hex);
    sha256_end(s);
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
