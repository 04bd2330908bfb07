/* bad_words: sequences of tokens that a job may not write. A token that would complete one is never drawn. Constant
 * once it has an owner more than the one who filled it. */
#ifndef NOISED_BAD_WORDS_H
#define NOISED_BAD_WORDS_H

typedef struct BadWords BadWords;

BadWords *bad_words_new(void);                             /* none, one owner; NULL when out of memory */
int bad_words_add(BadWords *words, const int *ids, int n); /* n >= 1; -1 when out of memory */
BadWords *bad_words_hold(BadWords *words);                 /* one owner more; NULL is fine */
void bad_words_release(BadWords *words);                   /* the last owner frees; NULL is fine */
int bad_words_count(const BadWords *words);

/* The last token of every sequence whose others the text [n] ends with, into banned[bad_words_count]; how many. */
int bad_words_next(const BadWords *words, const int *text, int n, int *banned);

#endif
