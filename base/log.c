#include "base/log.h"

#include "base/clock.h"
#include "base/log_ring.h"
#include "base/macros.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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

/* ---- lines ---- */

static LogFormat format;

void log_set_format(LogFormat f) { format = f; }
LogFormat log_format(void) { return format; }

/* What finds no room is lost; LogRecord says why all finds room. */
static void put(LogRecord *r, const char *text) {
    size_t n = MIN(strlen(text), sizeof r->text - 1 - r->n);
    memcpy(r->text + r->n, text, n);
    r->n += n;
}

/* Printable text in JSON's quotes. */
static void put_quoted(LogRecord *r, const char *text) {
    put(r, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') put(r, "\\");
        put(r, (char[]){*text, 0});
    }
    put(r, "\"");
}

static void put_time(LogRecord *r) {
    char text[32];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now.tv_sec, &tm));
    put(r, text);
}

static void put_name(LogRecord *r, const char *name) {
    put(r, format == LOG_JSON ? ",\"" : " ");
    put(r, name);
    put(r, format == LOG_JSON ? "\":" : "=");
}

static void begin(LogRecord *r, const char *level, const char *event) {
    r->n = 0;
    if (format == LOG_JSON) put(r, "{\"time\":\"");
    put_time(r);
    if (format == LOG_TEXT) return;
    put(r, "\",\"level\":\"");
    put(r, level);
    put(r, "\",\"event\":\"");
    put(r, event);
    put(r, "\"");
}

void log_begin(LogRecord *r, const char *event) {
    begin(r, "info", event);
    if (format == LOG_JSON) return;
    put(r, " ");
    put(r, event);
}

void log_text(LogRecord *r, const char *name, const char *value) {
    char text[LOG_VALUE_BYTES];
    if (!value) return;
    snprintf(text, sizeof text, "%s", value);
    text_make_printable(text);
    put_name(r, name);
    if (format == LOG_JSON || !*text || strpbrk(text, " \"\\="))
        put_quoted(r, text);
    else
        put(r, text);
}

static void put_number(LogRecord *r, const char *name, const char *digits) {
    put_name(r, name);
    put(r, digits);
}

void log_integer(LogRecord *r, const char *name, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    put_number(r, name, digits);
}

void log_real(LogRecord *r, const char *name, double value) {
    char digits[64];
    snprintf(digits, sizeof digits, "%.6f", MIN(value, 1e12));
    if (value >= 0) put_number(r, name, digits);
}

void log_flag(LogRecord *r, const char *name, bool value) { put_number(r, name, value ? "true" : "false"); }

static void write_line(LogRecord *r) {
    r->text[r->n++] = '\n';
    /* One call, so that lines of several threads never mix. */
    if (!log_ring_put(r->text, r->n)) fwrite(r->text, 1, r->n, stderr);
}

void log_end(LogRecord *r) {
    if (format == LOG_JSON) put(r, "}");
    write_line(r);
}

static void write_message(const char *level, const char *fmt, va_list ap) {
    char text[LOG_VALUE_BYTES], note[64] = "";
    uint64_t dropped;
    LogRecord r;
    if (!may_write(fmt, &dropped)) return;
    if (dropped) snprintf(note, sizeof note, " (%" PRIu64 " lines like this were left out)", dropped);
    vsnprintf(text, sizeof text - sizeof note, fmt, ap);
    text_make_printable(text);
    strcat(text, note);
    begin(&r, level, "message");
    if (format == LOG_JSON) {
        log_text(&r, "message", text);
        put(&r, "}");
    } else {
        put(&r, " ");
        if (strcmp(level, "info") != 0) put(&r, level), put(&r, ": ");
        put(&r, text);
    }
    write_line(&r);
}

void log_line(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_message("info", fmt, ap);
    va_end(ap);
}

void log_warning(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_message("warning", fmt, ap);
    va_end(ap);
}

void log_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_message("error", fmt, ap);
    va_end(ap);
}

/* ---- a reader that stalls ---- */

static void tell_of_lost(uint64_t n) {
    log_warning("%" PRIu64 " lines of the log were lost, for nobody read it or nothing took it", n);
}

int log_detach(void) { return log_ring_start(tell_of_lost); }
void log_flush(double seconds) { log_ring_flush(seconds); }
uint64_t log_lost(void) { return log_ring_lost(); }
