/* answers: what a completion says, apart from what differs by nature, so that two of them can be compared. */
#ifndef NOISED_TEST_ANSWERS_H
#define NOISED_TEST_ANSWERS_H

#include "tests/bench/load_client.h"
#include "tests/support/http_client.h"

/* The response object printed, malloc'ed: a plain body as it stands, a stream's events joined into the same. Without
 * id, created and how many prompt tokens were found in the cache. NULL when the answer is no whole completion: other
 * than status 200, an event lost its form, not exactly one [DONE] at the end, no finish_reason or two. */
char *answer_essence(const LoadAnswer *a);

#endif
