/* scrape: GET /metrics, of the server's port and of one of its own.
 *
 * A port of its own (--metrics-port) asks for no key and has a loop and connections of its own: whoever scrapes is
 * answered while the server's loop is busy and its places are taken. It tells what GET /metrics tells and nothing else.
 * Host and Origin are judged there as on the server's port. */
#ifndef NOISED_SCRAPE_H
#define NOISED_SCRAPE_H

#include "server/http/http.h"
#include "server/server.h"

void scrape(Server *s, HttpReply *reply); /* any thread */

/* A listening socket for the port, on the address of the server's own: fd of scrape_start. -1: it is taken. */
int scrape_listen(const HttpOptions *server, int port, Err *err);

/* Serves it from now on, as `server` says but for what is told above, and for the Server of `api`, which is borrowed
 * until scrape_stop. */
int scrape_start(Http **out, const HttpOptions *server, const HttpHandler *api, int fd, Err *err);
void scrape_stop(Http *http); /* NULL is fine */

#endif
