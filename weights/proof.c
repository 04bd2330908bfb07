#include "weights/proof.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static void add_block(Sha256 *s, const Proof *p, size_t block) {
    size_t at = block * PROOF_BLOCK;
    sha256_add(s, p->data + at, MIN(p->n - at, (size_t)PROOF_BLOCK));
}

Proof *proof_make(const void *data, size_t n) {
    Proof *p = xmalloc(sizeof *p);
    Sha256 s;
    *p = (Proof){.data = data, .n = n, .n_blocks = MAX((n + PROOF_BLOCK - 1) / PROOF_BLOCK, 1)};
    p->until = xmalloc(p->n_blocks * sizeof *p->until);
    sha256_init(&s);
    for (size_t b = 0; b < p->n_blocks; b++) {
        add_block(&s, p, b);
        sha256_peek(&s, p->until[b]);
    }
    return p;
}

void proof_free(Proof *p) {
    if (!p) return;
    free(p->until);
    free(p);
}

void proof_hex(const Proof *p, char hex[SHA256_HEX]) { sha256_print(p->until[p->n_blocks - 1], hex); }

bool proof_holds(const Proof *p) {
    unsigned char digest[SHA256_BYTES];
    Sha256 s;
    sha256_init(&s);
    sha256_add(&s, p->data, p->n);
    sha256_peek(&s, digest);
    return !memcmp(digest, p->until[p->n_blocks - 1], sizeof digest);
}

bool proof_walk_step(ProofWalk *w, const Proof *p) {
    unsigned char digest[SHA256_BYTES];
    if (w->block == 0) sha256_init(&w->hash);
    add_block(&w->hash, p, w->block);
    sha256_peek(&w->hash, digest);
    if (memcmp(digest, p->until[w->block], sizeof digest)) return false;
    w->block = (w->block + 1) % p->n_blocks;
    return true;
}
