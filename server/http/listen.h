/* listen: where connections come in, and how many there may be. */
#ifndef NOISED_HTTP_LISTEN_H
#define NOISED_HTTP_LISTEN_H

#include "server/http/connection.h"

int http_make_places(struct Http *h, Err *err); /* at start */
bool http_accept(struct Http *h);               /* those who wait, or some of them: then true */
void http_welcome(struct Http *h, int fd, const struct sockaddr *address, socklen_t n); /* takes fd */

#endif
