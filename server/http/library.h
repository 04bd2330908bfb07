/* library: what libmicrohttpd reads, and what it calls. It reads its sockets with recv and nothing else, and a shared
 * library binds to a recv that the program has. Ours looks at what has come without taking it and hands over what the
 * gate passes, so that the library never has a reason to refuse anything. For of what is legal, libmicrohttpd 0.9.75
 * takes "Content-Length: 5 " for malformed, "Transfer-Encoding: chunked " for a body without end, and answers by
 * itself, in HTML, when arguments, cookies or trailers have filled its pool. What the gate refuses is answered here,
 * and the library hears that the peer has gone. Of what has passed it keeps connections and frames answers. */
#ifndef NOISED_HTTP_LIBRARY_H
#define NOISED_HTTP_LIBRARY_H

#include "server/http/connection.h"

struct MHD_Daemon *http_library_start(struct Http *h); /* NULL with errno */
bool http_library_has_work(struct Http *h);
void http_library_round(struct Http *h);     /* who was woken goes on, and each connection does one thing */
void http_library_run(struct Http *h);       /* what is at hand */
void http_library_give_back(struct Http *h); /* what answers have left in the memory of idle connections */

enum { HTTP_MAX_FILES = 1 << 20 }; /* descriptors from there on cannot be judged */

/* Gives it c->fd; on false that is closed: memory is short, or the address has its fill of connections. */
bool http_library_take(HttpConnection *c, const struct sockaddr *address, socklen_t n);
void http_library_ring(HttpConnection *c); /* it looks once more for what has been withheld */

#endif
