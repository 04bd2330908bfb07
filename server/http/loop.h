/* loop: the one thread that reads, calls the handler and sends. It waits in epoll only. */
#ifndef NOISED_HTTP_LOOP_H
#define NOISED_HTTP_LOOP_H

#include "server/http/connection.h"

int http_loop_start(struct Http *h, Err *err);
void http_loop_stop(struct Http *h); /* and every connection */

#endif
