/* log: lines to stderr, as text or as JSON objects. Thread-safe.
 *
 *     2026-11-22T10:00:00Z warning: the reload is refused, ...
 *     {"time":"2026-11-22T10:00:00Z","level":"warning","event":"message","message":"the reload is refused, ..."}
 *
 * A record is a line of named fields, for programs to read; its text is event and name=value, quoted where needed. */
#ifndef NOISED_LOG_H
#define NOISED_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum LogFormat { LOG_TEXT, LOG_JSON } LogFormat;
void log_set_format(LogFormat format); /* before there are other threads */
LogFormat log_format(void);

/* One line with a UTC time stamp; control characters become '?'. Lines of one kind - one fmt, a constant string - that
 * come faster than LOG_RATE a second after a burst of LOG_BURST are left out, and the next of that kind says how many:
 * a client that provokes lines fills no disk, and hides no line of another kind. None of this needs memory. */
void log_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* somebody should look at it */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));   /* something is broken */

enum { LOG_BURST = 100, LOG_RATE = 10 };

uint64_t log_dropped(void); /* lines left out since the start */

/* ---- a reader that stalls ---- */

/* From now on, and until the process ends, a thread of its own writes the lines, out of a ring of 256 KiB: no
 * other thread waits for the reader of stderr. What finds no room, or stderr refuses, is lost, and the first line that
 * is taken again is followed by one that says how many were. -1: no thread; everything stays as it was. */
int log_detach(void);
void log_flush(double seconds); /* waits so long at most until all is written: before the process ends */
uint64_t log_lost(void);

/* ---- records; never left out ---- */

enum { LOG_VALUE_BYTES = 1024 }; /* of one text; longer ones are cut */

typedef struct LogRecord {
    char text[8192]; /* room for three texts of the greatest length, all quotes, and many short values */
    size_t n;
} LogRecord;

/* Names are constant: letters and '_'. */
void log_begin(LogRecord *r, const char *event);
void log_text(LogRecord *r, const char *name, const char *value); /* NULL: no such field */
void log_integer(LogRecord *r, const char *name, int64_t value);
void log_real(LogRecord *r, const char *name, double value); /* to the millionth; negative: no such field */
void log_flag(LogRecord *r, const char *name, bool value);
void log_end(LogRecord *r); /* writes it */

#endif
