/* questions: what a language model is asked without having been trained for it. A file has one question a line,
 *     {"query": "...", "choices": ["...", ...], "gold": 0}      which continuation is the likeliest?
 *     {"context": "...", "continuation": "..."}                 is the continuation what it would say? (LAMBADA)
 * all of one form; "ind", a number, is passed over. Between query and choice, or context and continuation, stands a
 * delimiter. Blanks at the end of a query and the delimiter belong to the continuation. */
#ifndef NOISED_QUESTIONS_H
#define NOISED_QUESTIONS_H

#include "base/err.h"

enum { CHOICES_MOST = 64 };

typedef struct Question {
    const char *query;
    const char **choices; /* [n_choices]; one of them: the continuation */
    int n_choices, gold, line;
} Question;

typedef struct Questions {
    const char *path; /* borrowed */
    bool cloze;       /* of the second form */
    Question *items;  /* [n] */
    int n;
    char *file;           /* owned; strings lie in it */
    const char **choices; /* owned, of all items */
    int n_choices, capacity, choices_capacity;
} Questions;

/* On failure, which names file and line, nothing needs to be freed. */
int questions_load(Questions *q, const char *path, Err *err);
void questions_free(Questions *q);

#endif
