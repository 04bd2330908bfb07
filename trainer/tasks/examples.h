/* examples: labelled data in memory, whatever it is of.
 *
 *     texts      one label a text, which may have a second part (a sentence and another one)
 *     sentences  of words, one label a word
 *     images     one label an image, all of one shape
 *
 * What bears a label is a unit: the units of example i are first[i] .. first[i + 1] - 1. Files are read whole and
 * strictly: a bad line is an error that names file and line, and nothing is left out. */
#ifndef NOISED_EXAMPLES_H
#define NOISED_EXAMPLES_H

#include "weights/labels.h"

typedef enum ExamplesKind { EXAMPLES_TEXTS, EXAMPLES_SENTENCES, EXAMPLES_IMAGES } ExamplesKind;

typedef struct Examples {
    ExamplesKind kind;
    const char *path; /* borrowed */
    int n, n_units;
    int *first; /* [n + 1] */
    int *label; /* [n_units] numbers in labels */
    int *line;  /* [n_units] of the file, from 1; NULL: it has no lines */
    Labels labels;
    const char **text;     /* [n_units] valid UTF-8, not empty; NULL for images */
    const char **second;   /* [n_units] NULL where there is none */
    const uint8_t *pixels; /* [n, channels, height, width]; NULL for others */
    int channels, height, width;
    char *file;   /* owned; strings and pixels lie in it */
    int capacity; /* of units and examples */
} Examples;

void examples_free(Examples *e);

/* "FILE:LINE" or "FILE: image N" of a unit, for messages. */
const char *examples_place(const Examples *e, int unit, char *out, size_t size);

#endif
