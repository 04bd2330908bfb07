/* listen: where connections come in, and how many there may be. */
#ifndef NOISED_HTTP_LISTEN_H
#define NOISED_HTTP_LISTEN_H

#include "server/http/connection.h"

int http_affordable_connections(int wanted);
int http_spare_file(void);
void http_accept(struct Http *h);                                                       /* those who wait */
void http_welcome(struct Http *h, int fd, const struct sockaddr *address, socklen_t n); /* takes fd */
void http_listen_tick(struct Http *h, double now); /* hears again, and logs refusals now and then */

#endif
