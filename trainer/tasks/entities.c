#include "trainer/tasks/entities.h"

#include "base/tags.h"

bool entities_tagged(const Labels *l) {
    bool any = false;
    for (int i = 0; i < l->n; i++) {
        const char *tag = labels_name(l, i);
        if (!tag_is_one(tag)) return false;
        any = any || !tag_is_outside(tag);
    }
    return any;
}

/* The words of the first chunk that begins at `from` or later: *first .. the result - 1. -1: there is none. */
static int next_chunk(const Labels *l, const int *tags, int n, int from, int *first) {
    int i = from;
    while (i < n && tag_is_outside(labels_name(l, tags[i]))) i++;
    if (i == n) return -1;
    *first = i++;
    while (i < n && !tag_is_boundary(labels_name(l, tags[i - 1]), labels_name(l, tags[i]))) i++;
    return i;
}

void entities_count(EntityCounts *c, const Labels *l, const int *gold, const int *got, int n) {
    int gold_first = 0, got_first = 0;
    int gold_end = next_chunk(l, gold, n, 0, &gold_first), got_end = next_chunk(l, got, n, 0, &got_first);
    while (gold_end >= 0 || got_end >= 0) {
        bool both = gold_end >= 0 && got_end >= 0;
        bool take_gold = got_end < 0 || (both && gold_first <= got_first);
        bool take_got = gold_end < 0 || (both && got_first <= gold_first);
        if (take_gold && take_got && gold_end == got_end)
            c->right += !strcmp(tag_type(labels_name(l, gold[gold_first])), tag_type(labels_name(l, got[got_first])));
        if (take_gold) {
            c->gold++;
            gold_end = next_chunk(l, gold, n, gold_end, &gold_first);
        }
        if (take_got) {
            c->found++;
            got_end = next_chunk(l, got, n, got_end, &got_first);
        }
    }
}

double entities_f1(const EntityCounts *c) {
    int below = c->found + c->gold;
    return below ? (double)(2 * c->right) / below : 0;
}
