/* log_ring: lines on their way to a reader of stderr that may stall; log.h is how they get here. */
#ifndef NOISED_LOG_RING_H
#define NOISED_LOG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What log_detach, log_flush and log_lost do. tell(n) is to put a line about n lost ones. */
int log_ring_start(void (*tell)(uint64_t n));
void log_ring_flush(double seconds);
uint64_t log_ring_lost(void);

/* False when nothing was detached: the caller writes the line itself. Any thread; never waits for the reader. */
bool log_ring_put(const char *line, size_t n);

#endif
