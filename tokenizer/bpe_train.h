/* bpe_train: learns a byte-level BPE vocabulary from texts.
 *
 * The result has id 0 = BPE_END_OF_TEXT (special), ids 1..256 the bytes in GPT-2's order, then one piece per merge.
 * Texts are cut at BPE_END_OF_TEXT and into words (pretokenize.h); again and again the most frequent pair of
 * neighbouring symbols becomes a new symbol, of equally frequent pairs the one with the smaller ids (left, then right).
 * A pair that spells an existing piece is passed over, so every piece has one merge. The same texts in any order or
 * division give the same tokenizer.
 * Memory is proportional to the distinct words, time to their total length times a log factor; one thread. */
#ifndef NOISED_BPE_TRAIN_H
#define NOISED_BPE_TRAIN_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"

#define BPE_END_OF_TEXT "<|endoftext|>"
enum { BPE_FIRST_MERGE = 257 }; /* vocab_size without any merge */

typedef struct BpeText {
    const char *data;
    size_t n;
} BpeText;

typedef struct BpeCorpus {
    const BpeText *texts;
    size_t n;
    size_t word_bytes; /* words that are new when those before are so long together count for nothing, which bounds the
                          memory to some 80 bytes for each; 0: too many are an error */
} BpeCorpus;

/* Fails when vocab_size is below BPE_FIRST_MERGE or beyond what the corpus has pairs for. */
int bpe_train(Tokenizer **out, const BpeCorpus *corpus, int vocab_size, Err *err);

#endif
