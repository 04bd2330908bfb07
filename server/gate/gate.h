/* gate: requests out of the bytes of a connection, one at a time. Every byte is judged before anybody acts on it: what
 * two readers might read in two ways is refused (head.h, body.h). It knows bytes alone; the socket, the clock and what
 * becomes of a request are its caller's. */
#ifndef NOISED_GATE_H
#define NOISED_GATE_H

#include "server/gate/body.h"
#include "server/gate/head.h"

typedef struct Gate {
    size_t max_body;
    enum { GATE_HEAD, GATE_BODY, GATE_WHOLE } at; /* reading that; the request is whole */
    int status;      /* to refuse the request with, whose rest is then of no use; 0: none */
    const char *why; /* constant; NULL: memory has run out */
    size_t n_seen;   /* of a head that is not there yet, by head_end */
    Buffer text;     /* the head, that `head` points into */
    Head head;
    bool head_only; /* a HEAD: its answer has no body */
    BodyReader reader;
    Buffer body;
} Gate;

/* Each takes of in[0..n), all that has come and was not taken yet, what belongs to the head or the body; the bytes
 * taken. Of a head none are until it is whole, or HTTP_MAX_HEAD have come: then it is refused. */
size_t gate_read_head(Gate *g, const char *in, size_t n);
size_t gate_read_body(Gate *g, const char *in, size_t n);

void gate_reset(Gate *g); /* for the next request, or to hold no memory; max_body stays */

#endif
