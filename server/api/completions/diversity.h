/* diversity: the member "diversity" of an answer, an array with one object for each prompt. */
#ifndef NOISED_API_DIVERSITY_H
#define NOISED_API_DIVERSITY_H

#include "server/api/completions/choice.h"

enum { DIVERSITY_TOKENS = 1 << 16 }; /* of an answer's choices at most: 0.3 s of a core */

/* One object, of the tokens that were generated for these choices. */
void diversity_print(Buffer *b, Choice *const *choices, int n);

#endif
