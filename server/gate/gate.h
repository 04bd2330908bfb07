/* gate: what comes over a connection, as another reader may have it: one judged request at a time, written anew. The
 * lines that are read here, trimmed; no query, cookies, chunk extensions or trailers. It knows bytes alone; who owns
 * them, the socket and the clock are its caller's. */
#ifndef NOISED_GATE_H
#define NOISED_GATE_H

#include "server/gate/body.h"
#include "server/gate/head.h"

typedef struct Gate {
    size_t max_body;
    enum { GATE_HEAD, GATE_BODY, GATE_WHOLE } at; /* whole: nothing more passes until the caller sets GATE_HEAD */
    size_t n_seen;                                /* of a head that is not there yet, by head_end */
    bool chunked, has_body;                       /* of the request that passes */
    BodyReader body;
} Gate;

/* What came of some bytes. */
typedef struct Passed {
    size_t used;     /* of them, not to be shown again */
    size_t made;     /* for the other reader */
    size_t n_head;   /* of these, a head that has passed just now; 0: none */
    int status;      /* to refuse the request with, whose rest is then of no use; 0: none */
    const char *why; /* constant */
    Head head;       /* as far as it was read, in the bytes themselves */
} Passed;

/* Shows it in[0..n), which is cut up in place: all that is here and not used yet, at most HTTP_MAX_HEAD bytes. What it
 * makes of that goes to out[0..max). */
Passed gate_pass(Gate *g, char *in, size_t n, char *out, size_t max);

#endif
