#include "tokenizer/added.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>

struct TrieNode {
    unsigned char byte;
    bool special;
    int child, sibling; /* 0: none, for the root is nobody's child */
    int id;             /* of the token that ends here, -1 for none */
};

static int node_new(AddedTrie *t, unsigned char byte) {
    if (t->n == t->capacity) {
        t->capacity = MAX(64, 2 * t->capacity);
        t->nodes = xrealloc(t->nodes, (size_t)t->capacity * sizeof *t->nodes);
    }
    t->nodes[t->n] = (struct TrieNode){.byte = byte, .id = -1};
    return t->n++;
}

static int node_child(const AddedTrie *t, int node, unsigned char byte) {
    int child = t->nodes[node].child;
    while (child && t->nodes[child].byte != byte) child = t->nodes[child].sibling;
    return child;
}

void added_trie_insert(AddedTrie *t, const char *text, size_t n, int id, bool special) {
    if (t->n == 0) node_new(t, 0);
    int node = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        int child = node_child(t, node, byte);
        if (!child) {
            child = node_new(t, byte);
            t->nodes[child].sibling = t->nodes[node].child;
            t->nodes[node].child = child;
        }
        node = child;
    }
    t->nodes[node].id = id;
    t->nodes[node].special = special;
}

bool added_trie_find(const AddedTrie *t, const char *text, size_t n, size_t from, bool special, AddedMatch *match) {
    if (t->n == 0) return false;
    match->id = -1;
    for (size_t start = from; start < n && match->id < 0; start++) {
        int node = 0;
        for (size_t i = start; i < n && (node = node_child(t, node, (unsigned char)text[i])) != 0; i++)
            if (t->nodes[node].id >= 0 && (special || !t->nodes[node].special))
                *match = (AddedMatch){.start = start, .end = i + 1, .id = t->nodes[node].id};
    }
    return match->id >= 0;
}

void added_trie_free(AddedTrie *t) {
    free(t->nodes);
    *t = (AddedTrie){0};
}
