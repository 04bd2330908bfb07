/* completion: one POST /v1/completions from the checked request to the last byte. It fans out into one job per choice
 * (prompt index * n + i), and each poll turns what the engine has pushed since into JSON: one object at the end, or a
 * server-sent event per choice with news.
 *
 * A Completion belongs to one thread at a time; only `wake` is called from others. */
#ifndef NOISED_COMPLETION_H
#define NOISED_COMPLETION_H

#include "model/shape.h"
#include "server/api/request.h"
#include "server/api/response.h"

#include <stdatomic.h>

/* Borrowed, constant while the server runs, but for `cut`. */
typedef struct CompletionContext {
    const ApiContext *api;
    Engine *engine;
    const char *fingerprint, *chat_fingerprint; /* of completions and of chats */
    const atomic_bool *cut;                     /* true: end what is unfinished with an error, now */
    Metrics *metrics;
} CompletionContext;

typedef struct Completion Completion;

/* Takes over what *r owns, on failure too. wake(wake_arg) is called from the engine's thread whenever a poll may have
 * news, and perhaps once more after completion_free. */
Completion *completion_start(const CompletionContext *ctx, CompletionRequest *r, uint64_t tenant, void (*wake)(void *),
                             void *wake_arg, ApiError *e);

/* Appends what is new to out. True when the answer is complete; then *status is its HTTP status (a stream's is 200
 * whatever happens, errors are events of it). When memory runs out that is so too: out->failed is set, whole events are
 * in it, and the status is 503. */
bool completion_poll(Completion *c, Buffer *out, int *status);

/* Whether the next poll does so much that nobody should wait for it: a complete answer of many tokens, or of a stream
 * with diversity the end. */
bool completion_is_long(const Completion *c);

bool completion_streams(const Completion *c);

/* How it went so far, or in the end. */
typedef struct CompletionStory {
    int prompt_tokens, completion_tokens;
    double queue_seconds, first_token_seconds; /* the longest wait and the first token of all choices; -1: not yet */
    const char *finish; /* of several the last in this order: stop, length, deadline, cancelled, error */
} CompletionStory;
CompletionStory completion_story(const Completion *c);

void completion_free(Completion *c); /* cancels what still runs */

#endif
