/* recv: what libmicrohttpd reads. It reads its sockets with recv and nothing else, and a shared library binds to a recv
 * that the program has. Ours looks at what has come without taking it and hands over what the gate passes, so that the
 * library never has a reason to refuse anything. For of what is legal, libmicrohttpd 0.9.75 takes "Content-Length: 5 "
 * for malformed, "Transfer-Encoding: chunked " for a body without end, and answers by itself, in HTML, when arguments,
 * cookies or trailers have filled its pool. What the gate refuses is answered here, and the library hears that the peer
 * has gone. */
#ifndef NOISED_HTTP_RECV_H
#define NOISED_HTTP_RECV_H

#include "server/http/connection.h"

enum { HTTP_MAX_FILES = 1 << 20 };

void http_recv_keep(int fd, HttpConnection *c); /* recv(fd) is judged from here on; c NULL: no longer */
void http_recv_ring(HttpConnection *c);         /* the library looks once more for what has been withheld */

#endif
