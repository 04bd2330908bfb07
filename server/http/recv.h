/* recv: what libmicrohttpd reads. It reads its sockets with recv and nothing else, and a shared library binds to a recv
 * that the program has. Ours reads the request itself, through the gate. For a head that has passed, or was refused,
 * the library gets one of a few lines that say what it needs for the answer: a head alone or not, HTTP/1.0 or 1.1,
 * whether to go on; while the body comes it sleeps. So no byte of a client's is read by two, and libmicrohttpd 0.9.75
 * meets nothing that it would refuse by itself, in HTML, or read in another way: folded lines, "Content-Length: 5 ",
 * what fills its pool. */
#ifndef NOISED_HTTP_RECV_H
#define NOISED_HTTP_RECV_H

#include "server/http/connection.h"

enum { HTTP_MAX_FILES = 1 << 20 };

void http_recv_keep(int fd, HttpConnection *c); /* recv(fd) is ours from here on; c NULL: no longer */
void http_recv_ring(HttpConnection *c);         /* the library looks once more, if the socket has any bytes */
void http_recv_body(HttpConnection *c);         /* some of it has come, or the end */

/* The answer to what is here of a request is what the handler says of such a one, and the connection ends with it. It
 * goes out by the library, so a peer that has sent nothing at all hears nothing. */
void http_refuse(HttpConnection *c, int status, const char *why); /* why NULL: memory has run out */

#endif
