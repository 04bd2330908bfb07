/* text_stream: the bytes of one choice, token by token, become the text that a client or a terminal sees.
 *
 * Text comes out as valid UTF-8 that is never taken back: bytes of an unfinished code point wait for the rest, bytes
 * that can be no code point become U+FFFD, and what may be the beginning of a stop string waits until it is decided.
 * The result depends on the bytes alone, not on how they were cut into pushes, so streamed and plain answers agree. */
#ifndef NOISED_TEXT_STREAM_H
#define NOISED_TEXT_STREAM_H

#include "base/buffer.h"

typedef struct StopString {
    char *text; /* valid UTF-8, not empty */
    int n;
    int *fallback; /* [n + 1] Knuth-Morris-Pratt: longest proper border of each prefix */
} StopString;

typedef struct StopSet {
    StopString *items;
    int n;
} StopSet;

int stop_set_add(StopSet *set, const char *text); /* -1 when memory runs out */
void stop_set_free(StopSet *set);

typedef struct TextStream {
    Buffer text;               /* valid UTF-8; after a stop string cut where that begins */
    size_t chars;              /* code points in text */
    size_t settled;            /* bytes of text that will stay, whatever comes */
    size_t settled_chars;      /* their code points */
    const StopString *stopped; /* the stop string that is complete: further bytes are dropped; NULL: none */
    char partial[4];           /* an unfinished code point */
    size_t n_partial;
    const StopSet *stops; /* borrowed */
    bool keep_stop;       /* the text ends behind the stop string; set before the first push */
    int *matched;         /* [stops->n] bytes of each stop string that text ends with */
    const Buffer *ends;   /* borrowed, NULL or a byte for each place in text: 0 where no stop string may end it */
} TextStream;

/* -1 when memory runs out. Later on that shows as text.failed: the text is what it was and takes nothing more. */
int text_stream_open(TextStream *t, const StopSet *stops);
void text_stream_free(TextStream *t);

/* Bytes pushed with `match` false are not looked at for stop strings, not even for the beginning of one. The stop
 * string that is complete first wins, of several that end together the longest. */
void text_stream_push(TextStream *t, const char *bytes, size_t n, bool match);

/* No more bytes: an unfinished code point becomes U+FFFD and everything is settled. */
void text_stream_end(TextStream *t);

#endif
