/* stream_client: a client that counts the tokens it has got and asks for the rest, as examples/failover.py does, and
 * notes when each event came and from which replica. */
#ifndef NOISED_TEST_STREAM_CLIENT_H
#define NOISED_TEST_STREAM_CLIENT_H

#include "base/buffer.h"
#include "tests/support/http_client.h"

/* An event of the answer: when it came, how many tokens the client then had, who sent it. */
typedef struct Arrival {
    double at;    /* now_seconds() */
    int tokens;   /* so far */
    int attempt;  /* 0, 1 ... */
    char replica; /* x-noised-replica; '?' without */
} Arrival;

typedef struct Stream {
    Buffer text, ids; /* what came; ids as "1,2," */
    int tokens, attempts;
    int takeovers;           /* attempts that brought more when some had come before */
    double seed, noise_seed; /* as reported; -1: drawn by the server, and not reported yet */
    char fingerprint[96];    /* of the first event; "" before */
    int status;              /* of the last attempt; 0: no answer at all */
    bool done;               /* [DONE] without an error before */
    bool mixed;              /* events of two fingerprints */
    Arrival *arrivals;
    int n_arrivals;
} Stream;

void stream_open(Stream *s, int seed); /* of sampling and noise; -1: the server draws them */
void stream_close(Stream *s);

/* One attempt: asks for what is missing, with the seeds and the fingerprint that were reported; true when the answer is
 * whole now. request: members of the body without braces, seeds and stream. most: it hangs up when it has so many
 * tokens; 0: never. */
bool stream_go_on(Stream *s, const Daemon *d, const char *request, int most);

/* Text and token ids in one string that two answers are compared by, malloc'ed. */
char *stream_essence(const Stream *s);

#endif
