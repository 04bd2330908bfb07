/* calls: the text of an answer while it comes, as what it says and whom it calls (server/form/calls.h). The text keeps
 * to a form of calls, or is the beginning of one that was cut: then a call whose name is not whole is none, and is
 * content where no other call is there. One thread. */
#ifndef NOISED_API_CALLS_H
#define NOISED_API_CALLS_H

#include "base/buffer.h"
#include "server/form/calls.h"

typedef struct Call {
    Buffer name, arguments; /* the latter JSON, or its beginning */
    bool whole;             /* the latter have ended */
    bool told, ended;       /* its name was sent; its end was */
    size_t sent;            /* bytes of its arguments */
} Call;

typedef enum CallsAt {
    CALLS_TEXT, /* with the first `matched` bytes of a mark, which are no content yet */
    CALLS_OPEN, /* likewise of the style's other texts */
    CALLS_NAME,
    CALLS_MIDDLE,
    CALLS_ARGUMENTS,
    CALLS_CLOSE,
    CALLS_BETWEEN,
    CALLS_MARK,
    CALLS_OVER /* what still comes is content */
} CallsAt;

typedef struct Calls {
    const CallStyle *style;
    Buffer content;          /* what is no call */
    size_t content_in_front; /* bytes of it that the first call follows */
    size_t content_sent;
    Call *items; /* [n], whose names are whole */
    int n;
    bool failed; /* memory ran out: it is not whole */
    /* ---- where it reads ---- */
    CallsAt at;
    Buffer name;             /* of the next call */
    size_t read, matched;    /* bytes of the text; of a literal */
    size_t begun;            /* where the last mark begins */
    int depth;               /* of the arguments' brackets */
    bool in_string, escaped; /* there */
} Calls;

/* prefix: what the text begins with and the model has not written; NULL: nothing. */
void calls_open(Calls *c, const CallStyle *style, const char *prefix);
void calls_free(Calls *c);

/* Reads on in text[0..n), which has grown since the last time; `ended`: it will not again. */
void calls_read(Calls *c, const char *text, size_t n, bool ended);

/* Since calls_mark_sent. */
static inline bool call_has_news(const Call *c) { return !c->told || c->arguments.n > c->sent; }
bool calls_have_news(const Calls *c);
void calls_mark_sent(Calls *c);

#endif
