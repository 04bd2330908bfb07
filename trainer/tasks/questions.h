/* questions: what a language model is asked without having been trained for it. A file has one question a line,
 *     {"query": "...", "choices": ["...", ...], "gold": 0}      which continuation is the likeliest?
 *     {"contexts": ["...", ...], "continuation": "...", "gold": 0}    behind which of them is it the likeliest?
 * (WinoGrande)
 *     {"context": "...", "continuation": "..."}                 is the continuation what it would say? (LAMBADA)
 * the last form in files of its own; "ind", a number, is passed over. Between query or context and choice or
 * continuation stands a delimiter. Blanks at the end of what stands in front of it, and the delimiter, belong to the
 * continuation. */
#ifndef NOISED_QUESTIONS_H
#define NOISED_QUESTIONS_H

#include "base/err.h"

enum { CHOICES_MOST = 64 };

typedef struct Question {
    const char *query;
    const char **choices;     /* [n_choices]; one of them: the continuation */
    const char *continuation; /* NULL, or what follows each of the choices, which then are contexts */
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

const char *question_context(const Question *q, int choice);
const char *question_continuation(const Question *q, int choice);

/* On failure, which names file and line, nothing needs to be freed. */
int questions_load(Questions *q, const char *path, Err *err);
void questions_free(Questions *q);

#endif
