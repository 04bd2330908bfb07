/* probe: one GET, for container health checks without curl. */
#ifndef NOISED_PROBE_H
#define NOISED_PROBE_H

#include "base/err.h"

/* url = http://HOST[:PORT][/PATH]. 0 when the answer's status is 200 within 5 seconds. */
int probe_get(const char *url, Err *err);

#endif
