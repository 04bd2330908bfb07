#include "base/log.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

void log_line(const char *fmt, ...) {
    char text[1024], line[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text_make_printable(text);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &tm);
    int m = snprintf(line + n, sizeof line - n, "%s\n", text);
    fwrite(line, 1, n + (size_t)m, stderr); /* one call, so that lines of several threads never mix */
}
