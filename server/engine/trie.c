#include "server/engine/trie.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

Trie *trie_new(const int *ids, const int *lengths, int n) {
    size_t all = 0;
    for (int i = 0; i < n; i++) all += (size_t)lengths[i];
    Trie *t = try_malloc(sizeof *t + ((size_t)n + 1 + all) * sizeof(int));
    if (!t) return NULL;
    int *copy = t->starts + n + 1;
    atomic_init(&t->references, 1);
    t->n = n;
    t->longest = 0;
    t->ids = memcpy(copy, ids, all * sizeof *ids);
    t->starts[0] = 0;
    for (int i = 0; i < n; i++) {
        t->starts[i + 1] = t->starts[i] + lengths[i];
        t->longest = MAX(t->longest, lengths[i]);
    }
    return t;
}

Trie *trie_hold(Trie *t) {
    if (t) atomic_fetch_add(&t->references, 1);
    return t;
}

void trie_release(Trie *t) {
    if (t && atomic_fetch_sub(&t->references, 1) == 1) free(t);
}

int trie_compare(const int *a, int n_a, const int *b, int n_b) {
    int i = 0;
    while (i < n_a && i < n_b && a[i] == b[i]) i++;
    if (i == n_a || i == n_b) return (n_a > n_b) - (n_a < n_b);
    return a[i] < b[i] ? -1 : 1;
}

static int length(const Trie *t, int answer) { return t->starts[answer + 1] - t->starts[answer]; }

/* Whether the node's tokens are an answer by themselves: that is then the first. */
static bool is_complete(const Trie *t, TrieNode node) { return length(t, node.first) == node.depth; }

TrieNode trie_root(const Trie *t) { return (TrieNode){.first = 0, .end = t->n, .depth = 0}; }

TrieNode trie_step(const Trie *t, TrieNode node, int id) {
    if (is_complete(t, node)) node.first++;
    while (node.first < node.end && t->ids[t->starts[node.first] + node.depth] != id) node.first++;
    while (node.end > node.first && t->ids[t->starts[node.end - 1] + node.depth] != id) node.end--;
    BUG_ON(node.first == node.end);
    node.depth++;
    return node;
}

bool trie_is_leaf(const Trie *t, TrieNode node) { return node.end - node.first == 1 && is_complete(t, node); }

/* Into allowed[n], which is ascending; the number then. */
static int insert(int *allowed, int n, int id) {
    int at = n;
    while (at > 0 && allowed[at - 1] > id) at--;
    if (at > 0 && allowed[at - 1] == id) return n;
    memmove(allowed + at + 1, allowed + at, (size_t)(n - at) * sizeof *allowed);
    allowed[at] = id;
    return n + 1;
}

int trie_next(const Trie *t, TrieNode node, const int *ends, int n_ends, int *allowed) {
    bool complete = is_complete(t, node);
    int n = 0;
    for (int i = node.first + complete; i < node.end; i++) n = insert(allowed, n, t->ids[t->starts[i] + node.depth]);
    for (int i = 0; i < n_ends && complete; i++) n = insert(allowed, n, ends[i]);
    return n;
}
