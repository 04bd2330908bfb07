/* log: lines to stderr. Thread-safe. */
#ifndef NOISED_LOG_H
#define NOISED_LOG_H

#include <stdint.h>

/* One line with a UTC time stamp; control characters become '?'. Lines of one kind - one fmt, a constant string - that
 * come faster than LOG_RATE a second after a burst of LOG_BURST are left out, and the next of that kind says how many:
 * a client that provokes lines fills no disk, and hides no line of another kind. */
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

enum { LOG_BURST = 100, LOG_RATE = 10 };

uint64_t log_dropped(void); /* lines left out since the start */

#endif
