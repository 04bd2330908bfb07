#include "base/log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>

/* What lines of one kind may still do: a bucket of LOG_BURST that fills by LOG_RATE a second. Kinds beyond the table
 * share its last bucket. */
typedef struct Kind {
    const char *fmt; /* NULL: a free place */
    double spent, seen;
    uint64_t dropped; /* since the last line */
} Kind;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static Kind kinds[64];
static uint64_t all_dropped;

/* False when the line must be left out; else *dropped is how many were before it. */
static bool may_write(const char *fmt, uint64_t *dropped) {
    double now = now_seconds();
    pthread_mutex_lock(&mutex);
    Kind *k = kinds;
    while (k->fmt && k->fmt != fmt && k < kinds + COUNTOF(kinds) - 1) k++;
    k->fmt = fmt;
    k->spent = MAX(k->spent - (now - k->seen) * LOG_RATE, 0);
    k->seen = now;
    bool write = k->spent <= LOG_BURST - 1;
    k->spent += write;
    *dropped = k->dropped;
    k->dropped = write ? 0 : k->dropped + 1;
    all_dropped += !write;
    pthread_mutex_unlock(&mutex);
    return write;
}

uint64_t log_dropped(void) {
    pthread_mutex_lock(&mutex);
    uint64_t n = all_dropped;
    pthread_mutex_unlock(&mutex);
    return n;
}

void log_line(const char *fmt, ...) {
    char text[1024], line[1200], note[64] = "";
    uint64_t dropped;
    if (!may_write(fmt, &dropped)) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text_make_printable(text);
    if (dropped) snprintf(note, sizeof note, " (%" PRIu64 " lines like this were left out)", dropped);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &tm);
    int m = snprintf(line + n, sizeof line - n, "%s%s\n", text, note);
    fwrite(line, 1, n + (size_t)m, stderr); /* one call, so that lines of several threads never mix */
}
