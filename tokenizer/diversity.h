/* diversity: how much several texts, given as tokens, differ from each other.
 *
 * distinct[n - 1]: different n-grams over all n-grams of all texts together, n = 1, 2, 3 (Li et al. 2016).
 * self_bleu: the mean over the texts of BLEU-4 of one against all others as its references (Zhu et al. 2018, Texygen).
 *     BLEU-4 is Papineni's for one sentence: uniform weights; counts clipped by the reference that has most; the length
 *     of the reference nearest to the text's own, of two the shorter; 0 where no token is found. A precision of zero
 *     matches counts as 0.1 match, and no n-gram as one (method 1 of Chen and Cherry 2014, as NLTK has it).
 * edit_distance: the mean over the pairs of Levenshtein's distance over the length of the longer text; two empty texts
 *     have 0.
 *
 * Time: T log T, and T^2 / 128 words for the distances, of T tokens in all. */
#ifndef NOISED_DIVERSITY_H
#define NOISED_DIVERSITY_H

#include "base/err.h"

typedef struct TokenSpan {
    const int *ids; /* any integers from 0 on */
    int n;
} TokenSpan;

enum { DISTINCT = 3 };

/* NaN where there is nothing to count: no n-gram, no second text. */
typedef struct Diversity {
    double distinct[DISTINCT], self_bleu, edit_distance;
} Diversity;

/* -1 when memory runs out. */
int diversity_measure(const TokenSpan *texts, int n, Diversity *out);

#endif
