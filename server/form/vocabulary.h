/* vocabulary: the tokens of a model by their bytes, sorted, so that those which begin alike stand side by side: a trie.
 * All tokens that may come next are found by walking it once; what a prefix may not do none of its tokens may. Constant
 * once made, for any number of threads; the Tokenizer is borrowed. */
#ifndef NOISED_FORM_VOCABULARY_H
#define NOISED_FORM_VOCABULARY_H

#include "server/form/form.h"
#include "tokenizer/tokenizer.h"

typedef struct Vocabulary {
    const Tokenizer *tokenizer;
    int n;           /* tokens that are text: not special, and with at least one byte */
    int64_t n_bytes; /* that it takes to walk all of them */
    int *ids;        /* [n] in order of their bytes, equal ones in order of ids */
    int *shared;     /* [n] bytes that each has in common with the one before */
} Vocabulary;

int vocabulary_init(Vocabulary *v, const Tokenizer *t); /* -1 when memory runs out */
void vocabulary_free(Vocabulary *v);

/* Whether token `id` may come next; form_take's return for its bytes, or false where it is no text. */
bool vocabulary_test(const Vocabulary *v, FormWalk *w, int id, FormScratch *s);
bool vocabulary_take(const Vocabulary *v, FormWalk *w, int id, FormScratch *s);

/* Those for which vocabulary_test is true into ids [v->n], in order of their bytes: their number. -1 when it takes more
 * than VOCABULARY_VISITS nodes for each byte of the vocabulary, which no form does that was not made for it. *visits:
 * how many it took. */
enum { VOCABULARY_VISITS = 64 };
int vocabulary_mask(const Vocabulary *v, FormWalk *w, FormScratch *s, int *ids, int64_t *visits);

#endif
