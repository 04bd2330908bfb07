/* reply: answers, those that the library sends and those that are sent past it. */
#ifndef NOISED_HTTP_REPLY_H
#define NOISED_HTTP_REPLY_H

#include "server/http/connection.h"

/* What the library sends of c->reply, whose body it takes; `stream` gives it the bytes of a stream. NULL when memory
 * runs out. */
struct MHD_Response *http_reply_response(HttpConnection *c, MHD_ContentReaderCallback stream);

/* Answers on the socket itself and ends the connection: with what the handler says of such a request, or with what
 * c->reply holds. The library then hears that the peer has gone. */
void http_refuse(HttpConnection *c, int status, const char *why);
void http_refuse_as_filled(HttpConnection *c);

void http_tell(HttpConnection *c, bool hung_up); /* the handler, of the answer that has ended */

#endif
