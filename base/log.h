/* log: lines to stderr. */
#ifndef NOISED_LOG_H
#define NOISED_LOG_H

/* One line to stderr with a UTC time stamp; control characters become "?". Thread-safe. */
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
