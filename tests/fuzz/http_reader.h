/* http_reader: a strict reader of a stream of HTTP/1 requests that has all of it at once. The gate's promises, written
 * a second time and in another way: what the fuzzer holds the gate against. */
#ifndef NOISED_FUZZ_HTTP_READER_H
#define NOISED_FUZZ_HTTP_READER_H

#include "base/buffer.h"

typedef struct HttpReading {
    Buffer requests;   /* of each complete one what a server would act on, in one form however it was written */
    Buffer unfinished; /* the last one, as far as it is there and its head is */
    int heads;         /* that passed */
    bool refused;      /* something that no request is, or one that is too long; nothing behind it was read */
} HttpReading;

HttpReading http_reading(const uint8_t *data, size_t n, size_t max_body);
void http_reading_free(HttpReading *r);

#endif
