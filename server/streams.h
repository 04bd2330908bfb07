/* streams: GET /streams, every answer that is being computed, waits or is being sent. */
#ifndef NOISED_STREAMS_H
#define NOISED_STREAMS_H

#include "server/server.h"

/* {"object":"list","data":[{"request_id":…,"tenant":…,…},…]}, the oldest first. The HTTP thread's. */
void streams_print(const Server *s, Buffer *b);

#endif
