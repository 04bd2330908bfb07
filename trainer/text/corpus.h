/* corpus: the texts as token ids in a memory-mapped file.
 *
 * The ids of all training parts stand in one row, <|endoftext|> between two files but not behind the last one, so that
 * a single file of T + 1 tokens is exactly one window; the held-out parts likewise. A text in which <|endoftext|> is
 * written out gets the special token there, and a tokenizer that wants a token in front of every text (Llama's) gets
 * it.
 *
 * tokens.bin is a cache: a header of 128 bytes (magic, bytes per id, counts, key), then the ids, little-endian, 2 bytes
 * each up to a vocabulary of 65,536, else 4. The key is the sha256 of texts, tokenizer and separator; a file with
 * another key, length or with ids out of range is built again. */
#ifndef NOISED_CORPUS_H
#define NOISED_CORPUS_H

#include "base/files.h"
#include "trainer/text/texts.h"
#include "weights/map_guard.h"

#include <string.h>

/* Borrowed ids, 2 or 4 bytes wide. */
typedef struct TokenSpan {
    const unsigned char *ids;
    int width;
    size_t n;                     /* all of them */
    const struct TokenSpan *next; /* where the row goes on, n - next->n ids behind; NULL: nowhere */
} TokenSpan;

static inline int token_at(const TokenSpan *s, size_t i) {
    uint32_t wide;
    for (; s->next && i >= s->n - s->next->n; s = s->next) i -= s->n - s->next->n;
    uint16_t narrow;
    if (s->width == 4) return (int)*(const uint32_t *)memcpy(&wide, s->ids + 4 * i, 4);
    return *(const uint16_t *)memcpy(&narrow, s->ids + 2 * i, 2);
}

/* s, which has no next, goes on in next, of the same width. */
static inline void token_span_join(TokenSpan *s, const TokenSpan *next) {
    s->n += next->n;
    s->next = next;
}

/* tokens[i]: the id at first + i, targets[i] the one behind it, n each. -1 when one is not below vocab: a mapped file
 * may change at any time, and no id without a row may reach the network. */
int span_read(const TokenSpan *s, size_t first, int n, int vocab, int *tokens, int *targets, Err *err);

typedef struct Corpus {
    TokenSpan train, val;          /* into the mapping */
    size_t train_bytes, val_bytes; /* of text */
    bool rebuilt;                  /* the cache was not there or stale */
    char path[PATH_BYTES];         /* of the file, or of a folder (corpus_map.h) */
    void *map;
    size_t map_bytes;
    MapGuard *guards; /* [n_guards] */
    int n_guards;
} Corpus;

/* separator: id between files, or -1. tokenizer_hash tells tokenizers apart. */
int corpus_open(Corpus *c, const char *path, const Texts *texts, const Tokenizer *tok, const char *tokenizer_hash,
                int separator, Err *err);
void corpus_close(Corpus *c);
bool corpus_intact(const Corpus *c); /* false: cut short or written to since it was mapped; ask after use */

#endif
