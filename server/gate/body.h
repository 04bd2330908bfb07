/* body: the body of a request as it comes, by its length or in chunks (RFC 9112, 7.1). Chunk extensions and
 * trailers are checked and dropped. */
#ifndef NOISED_GATE_BODY_H
#define NOISED_GATE_BODY_H

#include "base/buffer.h"

typedef struct BodyReader {
    int at;       /* in the grammar of chunks */
    size_t left;  /* bytes of the body, or of this chunk */
    size_t line;  /* bytes of this chunk's size line, or of the trailers */
    size_t taken; /* bytes of the body so far, with those that this chunk has announced */
    size_t max;
} BodyReader;

BodyReader body_begin(bool chunked, size_t length, size_t max);

/* Takes what belongs to the body from text[0..n) and appends its data. 1: that was its end, 0: there is more to come,
 * otherwise minus the status to refuse the request with (400, 413, 431), whose rest is then of no use. *used bytes were
 * taken. */
int body_read(BodyReader *r, const char *text, size_t n, size_t *used, Buffer *body);

#endif
