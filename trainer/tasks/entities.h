/* entities: chunks of tagged words (tags.h), counted as conlleval does: a chunk is right when its first word, its last
 * word and its type are. */
#ifndef NOISED_ENTITIES_H
#define NOISED_ENTITIES_H

#include "weights/labels.h"

/* Whether all labels are such tags, and one of them is not O. */
bool entities_tagged(const Labels *l);

typedef struct EntityCounts {
    int gold, found, right;
} EntityCounts;

/* Adds those of one sentence of n words. */
void entities_count(EntityCounts *c, const Labels *l, const int *gold, const int *got, int n);

/* The harmonic mean of precision, right / found, and recall, right / gold; 0 where nothing is below. */
double entities_f1(const EntityCounts *c);

#endif
