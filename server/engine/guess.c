#include "server/engine/guess.h"

#include "base/macros.h"

/* How many tokens in front of a[0] and b[0] are equal; a stands before b, and `before` tokens before it. */
static int in_common(const int *a, const int *b, int before, int most) {
    int n = 0;
    while (n < before && n < most && a[-1 - n] == b[-1 - n]) n++;
    return n;
}

int guess_next(const Guess *g, int *tokens, int n, int most) {
    int best = GUESS_COMMON + g->distrust - 1, from = -1;
    most = MIN(most, MAX(g->length, 1));
    for (int at = n - 1; at > best && most > 0 && best < GUESS_COMMON + GUESS_DISTRUST; at--) {
        int common = in_common(tokens + at, tokens + n, at, GUESS_COMMON + GUESS_DISTRUST);
        if (common > best) best = common, from = at;
    }
    if (from < 0) return 0;
    /* What follows may reach into the guess itself: a text that repeats has a period. */
    for (int i = 0; i < most; i++) tokens[n + i] = tokens[from + i];
    return MAX(most, 0);
}

void guess_learn(Guess *g, int guessed, int right) {
    g->distrust = right ? MAX(g->distrust - 1, 0) : MIN(g->distrust + 1, GUESS_DISTRUST);
    g->length = right == guessed ? MIN(2 * guessed, GUESS_MOST) : MAX(right, 1);
}
