/* serving: one version of what is served - a checkpoint, the engine that runs it and all that requests are checked
 * against - and the versions that are alive.
 *
 * A request pins the newest version and runs on it to its end, whatever is loaded meanwhile; its fingerprint names the
 * version it really ran on. A version that is neither the newest nor pinned is closed by the next versions_collect:
 * engine stopped, mapping gone. Two engines may compute side by side, each with a thread and a cache of its own. */
#ifndef NOISED_SERVING_H
#define NOISED_SERVING_H

#include "base/err.h"
#include "server/api/completion.h"
#include "server/options.h"
#include "weights/scrub.h"

typedef struct Serving {
    Checkpoint checkpoint;
    Tokenizer *tokenizer; /* the checkpoint's, or one of ids only when it has none */
    Engine *engine;
    Scrub *scrub;         /* NULL: nobody reads the weights again */
    char fingerprint[64]; /* checkpoint, version of the program, kernel family */
    ApiContext api;
    CompletionContext completion;
    /* ---- guarded by the mutex of the Versions ---- */
    int pins;
    struct Serving *older;
} Serving;

typedef struct Versions {
    pthread_mutex_t mutex;
    Serving *newest; /* NULL before the first */
} Versions;

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

void versions_add(Versions *v, Serving *s); /* s is the newest from now on */
Serving *versions_pin(Versions *v);
void versions_unpin(Versions *v, Serving *s);

/* Closes what nobody needs any more; how many old ones are left. One thread. */
int versions_collect(Versions *v);
void versions_close(Versions *v); /* all of them; nothing may be pinned */

/* How many are alive, and the sums over their engines; damage and sign of life are the newest one's. */
int versions_stats(Versions *v, EngineStats *sum);
void versions_drain(Versions *v);

#endif
