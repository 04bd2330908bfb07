#include "base/err.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdlib.h>

int err_set(Err *err, const char *fmt, ...) {
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
    }
    return -1;
}

void bug_abort(const char *file, int line, const char *expr) {
    log_error("bug: %s:%d: %s", file, line, expr);
    log_flush(1);
    abort();
}
