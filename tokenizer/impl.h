/* tokenizer_impl: shared by the tokenizer's own files only. */
#ifndef NOISED_TOKENIZER_IMPL_H
#define NOISED_TOKENIZER_IMPL_H

#include "tokenizer/build.h"
#include "tokenizer/map.h"
#include "tokenizer/pretokenize.h"

/* ---- added tokens: a trie over bytes, so that a text is searched once however many tokens there are ---- */

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

/* ---- merging ---- */

typedef struct Symbol {
    int id;
    int rank;       /* of the pair it begins */
    int prev, next; /* -1: none */
} Symbol;

typedef struct MergeScratch {
    Symbol *symbols; /* [capacity] of one word */
    uint64_t *heap;  /* [2 capacity] rank << 32 | position */
    size_t n_heap, capacity;
} MergeScratch;

void merge_scratch_reserve(MergeScratch *m, size_t n);
void merge_scratch_free(MergeScratch *m);

/* Merges m->symbols[0..n), whose ids are set, in place until no pair has a rank; returns how many are left. */
size_t merge_symbols(const Tokenizer *t, MergeScratch *m, size_t n);

/* ---- spelling ---- */

/* text in NFC, malloc'ed; bytes that are no UTF-8 stay as they are. data is NULL when memory ran out. */
TokenText nfc_spelling(TokenText text);

/* A SentencePiece text: every space becomes SPACE_MARK, one more in front when `prepend`. data is malloc'ed. */
TokenText sentence_spelling(TokenText text, bool prepend);
bool space_mark_at(TokenText text, size_t i);

/* ---- the tokenizer ---- */

struct Tokenizer {
    TokenizerSpec spec; /* its arrays belong to the tokenizer */
    char *bytes;        /* what every TokenText points into */
    TokenText *texts;   /* [n_pieces] what an id decodes to */
    bool *special;      /* [n_pieces] */
    PairMap ranks;      /* pair -> index into spec.merges */
    TextMap ids;        /* vocabulary piece -> id */
    AddedTrie raw, normalized;
    Pretokenizer *pretokenizer; /* NULL where no regex is used */
    bool mark_starts_word;      /* SentencePiece: no merge reaches across a SPACE_MARK from the left */
};

#endif
