/* access: the access log, a record for every request. */
#ifndef NOISED_ACCESS_H
#define NOISED_ACCESS_H

#include "server/http/http.h"

/* A client that hangs up is no error: its record says so. */
void access_line(void *server, const HttpVisit *v);

#endif
