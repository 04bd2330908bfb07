/* Every attention kind, one line each, in the order in which they are listed anywhere. */
#include "model/kind.h"

#include <string.h>

#define KINDS(X)                                                                                                       \
    X(mha)                                                                                                             \
    X(symmetric)                                                                                                       \
    X(pairwise)                                                                                                        \
    X(gqa)                                                                                                             \
    X(mla)                                                                                                             \
    X(tpa)                                                                                                             \
    X(differential)                                                                                                    \
    X(lecture)

#define DECLARED(kind) extern const AttentionKind attention_##kind;
KINDS(DECLARED)

#define LISTED(kind) &attention_##kind,
const AttentionKind *const attention_kinds[] = {KINDS(LISTED) NULL};

const AttentionKind *attention_kind_find(const char *name) {
    for (int k = 0; attention_kinds[k]; k++)
        if (!strcmp(attention_kinds[k]->name, name)) return attention_kinds[k];
    return NULL;
}

int attention_kind_key(const AttentionKind *k, const char *key) {
    int i = 0;
    while (i < ATTENTION_VALUES && k->keys[i] && strcmp(k->keys[i], key) != 0) i++;
    BUG_ON(i == ATTENTION_VALUES || !k->keys[i]);
    return i;
}
