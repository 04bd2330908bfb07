/* proof: whether bytes are still those whose digest was taken.
 *
 * The one pass that takes the SHA-256 of all data keeps it of every beginning of whole blocks too: 32 bytes a MiB. Who
 * walks over the data later knows after every block whether all up to there is unchanged, as surely as the digest of
 * all would tell. (Digests of single blocks would be a second pass at start, weaker if it shall be quick.) */
#ifndef NOISED_PROOF_H
#define NOISED_PROOF_H

#include "base/sha256.h"

enum { PROOF_BLOCK = 1 << 20 };

typedef struct Proof {
    const unsigned char *data;            /* borrowed */
    size_t n, n_blocks;                   /* at least one block, which may be empty */
    unsigned char (*until)[SHA256_BYTES]; /* [n_blocks] digest of everything up to the end of the block */
} Proof;

Proof *proof_make(const void *data, size_t n);
void proof_free(Proof *p);                            /* NULL is fine */
void proof_hex(const Proof *p, char hex[SHA256_HEX]); /* the digest of all data */

/* Reads everything again. Any thread; allocates nothing, as what follows. */
bool proof_holds(const Proof *p);

/* The same a block at a time, round and round. Begins as {0}. */
typedef struct ProofWalk {
    Sha256 hash;
    size_t block; /* the next */
} ProofWalk;
bool proof_walk_step(ProofWalk *w, const Proof *p); /* false: the block is not what it was, and the walk is over */

#endif
