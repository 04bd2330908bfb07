/* The trie of answers: every path through it is an answer. */
#include "server/engine/trie.h"

#include "tests/support/test.h"

#include <string.h>

/* 1 | 1 2 | 1 2 3 | 1 4 | 5 5 5 */
static const int ids[] = {1, 1, 2, 1, 2, 3, 1, 4, 5, 5, 5}, lengths[] = {1, 2, 3, 2, 3};

static void check_next(const Trie *t, TrieNode node, const int *expected, int n) {
    static const int ends[] = {4, 0, 0};
    int allowed[8];
    int got = trie_next(t, node, ends, COUNTOF(ends), allowed);
    CHECK_MSG(got == n && !memcmp(allowed, expected, (size_t)n * sizeof *expected), "%d tokens", got);
}

TEST(trie_walks) {
    Trie *t = trie_new(ids, lengths, COUNTOF(lengths));
    REQUIRE(t && t->longest == 3 && t->n == 5 && atomic_load(&t->references) == 1);
    trie_release(trie_hold(t));
    CHECK(atomic_load(&t->references) == 1);
    TrieNode root = trie_root(t), one = trie_step(t, root, 1), two = trie_step(t, one, 2);
    check_next(t, root, (int[]){1, 5}, 2);
    check_next(t, one, (int[]){0, 2, 4}, 3); /* 4 goes on, and is an end */
    check_next(t, two, (int[]){0, 3, 4}, 3);
    CHECK(!trie_is_leaf(t, root) && !trie_is_leaf(t, one) && !trie_is_leaf(t, two));
    CHECK(trie_is_leaf(t, trie_step(t, two, 3)) && trie_is_leaf(t, trie_step(t, one, 4)));
    TrieNode five = trie_step(t, root, 5);
    check_next(t, five, (int[]){5}, 1);
    CHECK(trie_is_leaf(t, trie_step(t, trie_step(t, five, 5), 5)));
    trie_release(t);
}

TEST(trie_order) {
    const int *at = ids;
    for (size_t i = 0; i + 1 < COUNTOF(lengths); at += lengths[i++]) {
        CHECK(trie_compare(at, lengths[i], at + lengths[i], lengths[i + 1]) < 0);
        CHECK(trie_compare(at + lengths[i], lengths[i + 1], at, lengths[i]) > 0);
        CHECK(trie_compare(at, lengths[i], at, lengths[i]) == 0);
    }
}
