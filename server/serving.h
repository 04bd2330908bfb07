/* serving: one version of what is served - a checkpoint, the engine that runs it and all that requests are checked
 * against. Two may compute side by side, each with a thread and a cache of its own; versions.h says which are alive. */
#ifndef NOISED_SERVING_H
#define NOISED_SERVING_H

#include "base/err.h"
#include "server/api/chat/chat.h"
#include "server/api/answer.h"
#include "server/options.h"
#include "weights/scrub.h"

typedef struct Serving {
    Checkpoint checkpoint;
    Checkpoint draft;      /* of --draft */
    Tokenizer *tokenizer;  /* the checkpoint's, or one of ids only when it has none */
    Vocabulary vocabulary; /* of a model that generates, else empty */
    Engine *engine;
    Scrub *scrub;              /* NULL: nobody reads the weights again */
    char fingerprint[64];      /* checkpoint, version of the program, arithmetic */
    char chat_fingerprint[96]; /* and the template */
    Chat chat;
    int slots;                             /* choices that are computed at the same time */
    Buffer tokenizer_info, props, openapi; /* the answers of these routes */
    ApiContext api;
    AnswerContext answer;
    /* ---- guarded by the mutex of the Versions ---- */
    int pins;
    struct Serving *older;
} Serving;

/* What every version has in common; borrowed. */
typedef struct ServingContext {
    const Options *options;
    const char *model_name;
    Metrics *metrics;
    const atomic_bool *cut;
} ServingContext;

/* Loads the folder of the options and starts an engine, which warms up by itself. */
int serving_open(Serving **out, const ServingContext *ctx, Err *err);
void serving_close(Serving *s); /* nothing may be pinned to it; NULL is fine */

/* The same, for when another version serves meanwhile: returns when the engine is ready. A version that has lost the
 * tokenizer which `before` has, or whose logits are not finite, is refused. */
int serving_open_ready(Serving **out, const ServingContext *ctx, const Serving *before, Err *err);

#endif
