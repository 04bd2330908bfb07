/* previous: an answer that was given once, read from its JSON, and how a new one differs from it. The JSON is a whole
 * answer, or an array of the events of a stream, whose texts are joined. */
#ifndef NOISED_PREVIOUS_H
#define NOISED_PREVIOUS_H

#include "base/json/json.h"
#include "server/api/error.h"
#include "server/form/calls.h"

typedef struct PreviousChoice {
    Buffer text;
    int n_calls;        /* of functions, which are in the text as the model wrote them */
    char finish[16];    /* finish_reason; "" when the stream broke off before it */
    bool named;         /* the last of them, and its arguments have not begun */
    bool seen, partial; /* cut by a deadline or broken off: the text goes on */
    bool has_seed;
    uint64_t seed, noise_seed; /* noise_seed: seed where there was no noise */
} PreviousChoice;

typedef struct PreviousAnswer {
    const CallStyle *style;
    PreviousChoice *choices; /* [n] by index */
    int n;
    char fingerprint[96]; /* "" where none is given */
} PreviousAnswer;

/* An answer of n choices, whose calls are of this style; NULL, and e names the place, when it is none. Style NULL: it
 * calls nothing. */
PreviousAnswer *previous_read(const cJSON *response, int n, const CallStyle *style, ApiError *e);
void previous_free(PreviousAnswer *f); /* NULL is fine */

/* The first byte at which text differs from c's; -1 when it does not, as far as c's goes when that is partial. */
int64_t previous_difference(const PreviousChoice *c, const char *text, size_t n);

/* Up to 40 bytes of text around that byte, whole characters, as a JSON string. */
void previous_put_around(Buffer *b, const char *key, const char *text, size_t n, size_t at);

/* ["checkpoint","version","arithmetic","template"]: the parts in which two fingerprints differ. */
void previous_put_parts(Buffer *b, const char *key, const char *previous, const char *now);

#endif
