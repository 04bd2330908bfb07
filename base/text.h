/* text: questions that C's string.h leaves to be put together. All texts end in a NUL; "" begins and ends every one. */
#ifndef NOISED_TEXT_H
#define NOISED_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool text_begins(const char *text, const char *start) { return !strncmp(text, start, strlen(start)); }

static inline bool text_ends(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Whether it is one of a list, which ends in NULL. */
static inline bool text_is_in(const char *text, const char *const *list) {
    while (*list && strcmp(*list, text)) list++;
    return *list != NULL;
}

/* For qsort of an array of texts. */
static inline int text_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

#endif
