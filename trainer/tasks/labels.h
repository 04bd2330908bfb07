/* labels: the classes of a task, by name. A class's number is its place in the list. */
#ifndef NOISED_LABELS_H
#define NOISED_LABELS_H

#include "base/err.h"
#include "model/config.h"

enum { LABELS_MOST = 1024, LABEL_BYTES = 64 };

/* A zeroed Labels is empty. */
typedef struct Labels {
    char (*names)[LABEL_BYTES]; /* [n] malloc'ed */
    int n;
} Labels;

int labels_find(const Labels *l, const char *name); /* -1: unknown */
/* Finds or appends; -1 for a name that is empty or too long, and for one too many. */
int labels_add(Labels *l, const char *name, Err *err);
int labels_of(Labels *l, const Config *c, Err *err); /* appends those of a network, in their order */
Labels labels_copy(const Labels *l);
void labels_free(Labels *l);

/* Puts the names in order, as numbers when all are numbers, else by their bytes; place[old] is the new number. */
void labels_sort(Labels *l, int *place);

/* "NEG, POS" as far as there is room, for messages. */
const char *labels_show(const Labels *l, char *out, size_t size);

#endif
