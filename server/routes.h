/* routes: every path of the server, who may use it and what answers. The one place where HTTP meets the API. */
#ifndef NOISED_ROUTES_H
#define NOISED_ROUTES_H

#include "auth.h"
#include "completion.h"
#include "http.h"

typedef struct Server {
    ApiContext api;
    CompletionContext completion;
    Engine *engine;
    const Auth *auth;
    int64_t created;
    atomic_bool draining; /* refuse new completions, /health says so */
    atomic_bool cut;      /* end running ones with an error */
} Server;

/* The functions for http_start; the server is borrowed until http_stop. */
HttpHandler routes_handler(Server *s);

#endif
