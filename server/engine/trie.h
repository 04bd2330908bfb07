/* trie: the answers that a job may give, as tokens. They are sorted, so those that begin alike stand side by side, and
 * a node is a range of them. Constant once made; reference-counted: the last release frees it. */
#ifndef NOISED_TRIE_H
#define NOISED_TRIE_H

#include "base/err.h"

#include <stdatomic.h>

typedef struct Trie {
    atomic_int references;
    int n;          /* answers */
    int longest;    /* tokens of the longest */
    const int *ids; /* those of all answers in a row, in this allocation */
    int starts[];   /* [n + 1] where each begins in ids */
} Trie;

/* From n answers of lengths[i] tokens, at least one each, that lie in ids one behind the other: all different and in
 * the order of trie_compare. Held once. NULL when memory runs out. */
Trie *trie_new(const int *ids, const int *lengths, int n);
Trie *trie_hold(Trie *t);   /* t; NULL is fine */
void trie_release(Trie *t); /* NULL is fine */

/* Token by token, and what another begins with is less. */
int trie_compare(const int *a, int n_a, const int *b, int n_b);

typedef struct TrieNode {
    int first, end; /* the answers that begin with the tokens so far */
    int depth;      /* so many tokens */
} TrieNode;

TrieNode trie_root(const Trie *t);
TrieNode trie_step(const Trie *t, TrieNode node, int id); /* id is one of trie_next's, and no end */

/* An answer is complete, and no other goes on from here. */
bool trie_is_leaf(const Trie *t, TrieNode node);

/* The tokens that may come next, ascending, each once; where an answer is complete they are also ends[n_ends].
 * allowed [t->n + n_ends]. Their number; there is one at least but in a leaf. */
int trie_next(const Trie *t, TrieNode node, const int *ends, int n_ends, int *allowed);

#endif
