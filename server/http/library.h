/* library: what libmicrohttpd calls. It is given judged requests (recv.h), keeps connections and frames answers. */
#ifndef NOISED_HTTP_LIBRARY_H
#define NOISED_HTTP_LIBRARY_H

#include "server/http/connection.h"

struct MHD_Daemon *http_library_start(struct Http *h); /* NULL with errno */

#endif
