/* library: what libmicrohttpd calls. It keeps connections and frames answers to what recv gave it. */
#ifndef NOISED_HTTP_LIBRARY_H
#define NOISED_HTTP_LIBRARY_H

#include "server/http/connection.h"

struct MHD_Daemon *http_library_start(struct Http *h); /* NULL with errno */
bool http_library_has_work(struct Http *h);            /* at once */
void http_library_run(struct Http *h);

#endif
