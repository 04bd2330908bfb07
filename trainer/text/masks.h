/* masks: which targets of a window count, docs/spec.md 5.
 *
 * Fill-mask: of its tokens, but for the one between texts, 15% are chosen; 80% of these become the mask, 10% any token,
 * 10% stay (BERT). A pure function of (seed, window, position), docs/spec.md 7.
 * An image as tokens, when the window is one: all but the last, which is the class of another image.
 * Else all.
 */
#ifndef NOISED_MASKS_H
#define NOISED_MASKS_H

#include "base/sha256.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

#define MASK_TOKEN "<mask>"

bool masks_any(const Config *c, int n); /* whether not all targets of a window of n count */

/* weights[n] become 1 where a target counts, else 0; how many do. Fill-mask: tokens[n] are masked in place, targets[n]
 * become what they were. */
int masks_apply(const Config *c, uint64_t seed, uint64_t window, int n, int *tokens, int *targets, float *weights);

/* 1 where the ids of the tokenizer.json `file`, whose sha256 is `hash`, are t's too: t is that one, or that one and the
 * mask. 0 where they are not; -1 on error. sum becomes the sha256 of t. */
int masks_same_ids(const Tokenizer *t, const char *file, const char *hash, char sum[SHA256_HEX], Err *err);

#endif
