/* log_ring: lines on their way to a reader of stderr that may stall; log.h is how they get here. */
#ifndef NOISED_LOG_RING_H
#define NOISED_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>

/* False when nothing was detached: the caller writes the line itself. Any thread; never waits for the reader. */
bool log_ring_put(const char *line, size_t n);

#endif
