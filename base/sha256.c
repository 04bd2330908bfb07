#include "base/sha256.h"

#include "base/err.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* One round. Instead of moving all eight words down by one, the caller renames them: only two change. */
static inline void step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f, uint32_t g,
                        uint32_t *h, uint32_t word) {
    uint32_t t = *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & (f ^ g)) ^ g) + word;
    *d += t;
    *h = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
}

static void compress(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
                    h = state[7];
    for (int i = 0; i < 16; i++) {
        const unsigned char *p = block + 4 * i;
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = constants + i, *x = w + i;
        step(a, b, c, &d, e, f, g, &h, k[0] + x[0]);
        step(h, a, b, &c, d, e, f, &g, k[1] + x[1]);
        step(g, h, a, &b, c, d, e, &f, k[2] + x[2]);
        step(f, g, h, &a, b, c, d, &e, k[3] + x[3]);
        step(e, f, g, &h, a, b, c, &d, k[4] + x[4]);
        step(d, e, f, &g, h, a, b, &c, k[5] + x[5]);
        step(c, d, e, &f, g, h, a, &b, k[6] + x[6]);
        step(b, c, d, &e, f, g, h, &a, k[7] + x[7]);
    }
    const uint32_t v[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void sha256_init(Sha256 *s) {
    *s = (Sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(Sha256 *s, const void *data, size_t n) {
    const unsigned char *p = data;
    while (n) {
        size_t at = s->bytes % sizeof s->block, m = MIN(n, sizeof s->block - at);
        if (m == sizeof s->block) {
            compress(s->state, p);
        } else {
            memcpy(s->block + at, p, m);
            if (at + m == sizeof s->block) compress(s->state, s->block);
        }
        s->bytes += m;
        p += m;
        n -= m;
    }
}

void sha256_hex(Sha256 *s, char hex[65]) {
    uint64_t bits = 8 * s->bytes;
    unsigned char length[8];
    sha256_add(s, "\x80", 1);
    while (s->bytes % sizeof s->block != sizeof s->block - sizeof length) sha256_add(s, "", 1);
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", s->state[i]);
}
