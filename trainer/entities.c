#include "trainer/entities.h"

#include <string.h>

static bool is_outside(const char *tag) { return !strcmp(tag, "O"); }

bool entities_tagged(const Labels *l) {
    bool any = false;
    for (int i = 0; i < l->n; i++) {
        const char *tag = l->names[i];
        if (is_outside(tag)) continue;
        if (!strchr("BIES", tag[0]) || tag[1] != '-' || !tag[2]) return false;
        any = true;
    }
    return any;
}

static const char *type_of(const char *tag) { return is_outside(tag) ? "" : tag + 2; }

/* Whether no chunk reaches from the word of `before` to that of `tag`. */
static bool is_boundary(const char *before, const char *tag) {
    return strcmp(type_of(before), type_of(tag)) || strchr("BS", tag[0]) || strchr("ES", before[0]);
}

/* The words of the first chunk that begins at `from` or later: *first .. the result - 1. -1: there is none. */
static int next_chunk(const Labels *l, const int *tags, int n, int from, int *first) {
    int i = from;
    while (i < n && is_outside(l->names[tags[i]])) i++;
    if (i == n) return -1;
    *first = i++;
    while (i < n && !is_boundary(l->names[tags[i - 1]], l->names[tags[i]])) i++;
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
            c->right += !strcmp(type_of(l->names[gold[gold_first]]), type_of(l->names[got[got_first]]));
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

static double share(int part, int whole) { return whole ? (double)part / whole : 0; }

double entities_precision(const EntityCounts *c) { return share(c->right, c->found); }
double entities_recall(const EntityCounts *c) { return share(c->right, c->gold); }
double entities_f1(const EntityCounts *c) { return share(2 * c->right, c->found + c->gold); }
