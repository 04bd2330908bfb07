/* routes: every path of the server, who may use it and what answers. The one place where HTTP meets the API. */
#ifndef NOISED_ROUTES_H
#define NOISED_ROUTES_H

#include "server/http/http.h"
#include "server/server.h"

/* The functions for http_start; the server is borrowed until http_stop. */
HttpHandler routes_handler(Server *s);

/* The 404 of a path without a route, which names the nearest that there is; -1. */
int routes_fail_unknown(const char *path, ApiError *e);

#endif
