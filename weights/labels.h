/* labels: the classes of a task, by name: id2label of config.json. A class's number is its place in the list; how many
 * there are is in the Config, for the head has a row for each. */
#ifndef NOISED_LABELS_H
#define NOISED_LABELS_H

#include "base/err.h"

enum { LABELS_BYTES = 4096, LABELS_MOST = LABELS_BYTES / 2, LABEL_BYTES = 64 };

/* A zeroed Labels is empty; a copy is by value. */
typedef struct Labels {
    int n;
    size_t used;
    char names[LABELS_BYTES]; /* [used] n strings behind each other */
} Labels;

const char *labels_name(const Labels *l, int i);
int labels_find(const Labels *l, const char *name); /* -1: unknown */
/* Finds or appends; -1 for a name that is empty, has LABEL_BYTES or more, or finds no room. */
int labels_add(Labels *l, const char *name, Err *err);

/* Puts the names in order, as numbers when all are numbers, else by their bytes; place[old] is the new number. */
void labels_sort(Labels *l, int *place);

/* "NEG, POS" as far as there is room, for messages. */
const char *labels_show(const Labels *l, char *out, size_t size);

#endif
