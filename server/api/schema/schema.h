/* schema: what a route is, and what the tables say of it in docs/api.md and /openapi.json. The server finds routes and
 * reads bodies by the same rows, so that none can say what another does not. */
#ifndef NOISED_API_SCHEMA_H
#define NOISED_API_SCHEMA_H

#include "base/buffer.h"
#include "server/api/answer.h"

struct HttpRequest;
struct HttpReply;
struct Server;

typedef struct Route {
    const char *path, *parameter; /* with a parameter, which may hold slashes, whatever begins with path */
    const char *also[4];          /* other paths of the same; NULL: none */
    const char *help;
    bool open;      /* needs no API key */
    bool of_models; /* nor does this one where models->open */
    bool last_left; /* answered where there is no place for others: whether the daemon lives */
    bool unfit;     /* a 503 has the form of the answer */
    /* Schemas in answers.json of an answer in JSON and of a stream's event, or the media type of another answer. */
    const char *schema, *event, *media;

    /* One of these answers. A POST: by the engine, or from the body alone; a GET or HEAD. */
    const AnswerKind *engine;
    int (*convert)(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e);
    void (*get)(struct Server *s, const struct HttpRequest *request, struct HttpReply *reply);
    const FieldList *body; /* of a POST; NULL: GET and HEAD */
} Route;

extern const Route routes[]; /* server/routes.c; a row without a path ends them */

bool route_is_open(const Route *r, const ApiModels *models);
const Route *route_find(const char *path);     /* NULL when there is none */
const char *route_parameter(const char *path); /* what a path with a route has behind that, "" for nothing */
/* The path, or other path, of a route that this one may be a slip of the pen for; NULL when none is near. */
const char *route_nearest(const char *path);

/* The tables of docs/api.md. */
void schema_print_markdown(Buffer *out);

#endif
