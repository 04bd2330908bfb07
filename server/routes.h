/* routes: every path of the server, who may use it and what answers. The one place where HTTP meets the API. */
#ifndef NOISED_ROUTES_H
#define NOISED_ROUTES_H

#include "server/auth.h"
#include "server/http/http.h"
#include "server/versions.h"
#include "server/workers.h"

typedef struct Server {
    Versions versions;
    Metrics metrics;
    Workers *workers;
    const Auth *auth;
    const char *model_name;
    int64_t created;
    atomic_bool draining; /* refuse new completions, /health says so */
    atomic_bool cut;      /* end running ones with an error */
} Server;

/* The functions for http_start; the server is borrowed until http_stop. */
HttpHandler routes_handler(Server *s);

/* What /health says - "ok", or why not - and the figures it goes by. */
const char *server_status(Server *s, EngineStats *stats);

#endif
