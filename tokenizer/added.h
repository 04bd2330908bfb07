/* added: a trie over the bytes of added tokens, so that a text is searched once however many tokens there are. */
#ifndef NOISED_ADDED_H
#define NOISED_ADDED_H

#include "base/err.h"

enum { ADDED_BYTES = 1024 }; /* of a token at most: a text is looked through from every byte */

typedef struct AddedTrie {
    struct TrieNode *nodes;
    int n, capacity;
} AddedTrie;

typedef struct AddedMatch {
    size_t start, end;
    int id;
} AddedMatch;

void added_trie_insert(AddedTrie *t, const char *text, size_t n, int id, bool special);
/* The leftmost occurrence in text[from..n), the longest there; false: none. */
bool added_trie_find(const AddedTrie *t, const char *text, size_t n, size_t from, bool special, AddedMatch *match);
void added_trie_free(AddedTrie *t);

#endif
