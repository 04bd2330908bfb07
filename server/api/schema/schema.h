/* schema: every route with what its body may hold. The server finds routes and reads bodies by these tables, and the
 * tables of docs/api.md are printed from them, so that neither can say what the other does not. */
#ifndef NOISED_API_SCHEMA_H
#define NOISED_API_SCHEMA_H

#include "base/buffer.h"
#include "server/api/fields.h"

typedef enum RouteId {
    ROUTE_COMPLETIONS,
    ROUTE_CHAT,
    ROUTE_EMBEDDINGS,
    ROUTE_CLASSIFY,
    ROUTE_TAG,
    ROUTE_FILL_MASK,
    ROUTE_SCORE,
    ROUTE_REPLAY,
    ROUTE_TOKENIZE,
    ROUTE_DETOKENIZE,
    ROUTE_MODELS,
    ROUTE_MODEL,
    ROUTE_MODELS_SHORT,
    ROUTE_TOKENIZER_INFO,
    ROUTE_PROPS,
    ROUTE_VERSION,
    ROUTE_LOAD,
    ROUTE_HEALTH,
    ROUTE_LIVE,
    ROUTE_METRICS,
    ROUTE_NOISE,
    ROUTE_OPENAPI,
    ROUTE_PAGE,
    ROUTES,
    ROUTE_NONE = -1
} RouteId;

typedef struct Route {
    const char *path, *parameter; /* with a parameter, which may hold slashes, whatever begins with path */
    bool open;                    /* needs no API key */
    const FieldList *body;        /* of a POST; NULL: GET and HEAD */
    const char *help;
} Route;

extern const Route routes[ROUTES];

RouteId route_find(const char *path); /* ROUTE_NONE when there is none */

/* The tables of docs/api.md. */
void schema_print_markdown(Buffer *out);

#endif
