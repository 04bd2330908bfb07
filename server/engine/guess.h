/* guess: the tokens that may come next, looked up in the prompt and the answer so far (prompt lookup decoding). What
 * followed where the text once ran as it ends now is put behind it, one pass gives the logits of all of it, and the
 * tokens are drawn as always, each from the logits behind those before it: a guess is kept as long as it is what was
 * drawn. So the answer is the same, and where guesses are right there are fewer passes.
 *
 * A wrong guess costs its rows in a pass, so trust is earned: each one asks for a longer beginning in common before the
 * next, each right one for a shorter one. No memory, one thread. */
#ifndef NOISED_GUESS_H
#define NOISED_GUESS_H

/* Zeroed for a text that begins. */
typedef struct Guess {
    int length;   /* tokens of the next guess at most */
    int distrust; /* tokens in common that it must have beyond GUESS_COMMON */
} Guess;

enum { GUESS_COMMON = 2, GUESS_MOST = 7, GUESS_DISTRUST = 14 };

/* At most `most` tokens that may follow tokens[n], written behind them; their number. */
int guess_next(const Guess *g, int *tokens, int n, int most);

/* Of `guessed` tokens, one at least, the first `right` were drawn. */
void guess_learn(Guess *g, int guessed, int right);

#endif
