#include "trainer/text/lines.h"

#include "base/files.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <string.h>

static int line_of(const char *data, size_t at) {
    int line = 1;
    for (size_t i = 0; i < at; i++) line += data[i] == '\n';
    return line;
}

int lines_open(Lines *l, const char *path, char **file, Err *err) {
    size_t n;
    char *data = *file = file_read(path, LINES_FILE_MAX, &n, err);
    if (!data) return -1;
    size_t good = utf8_valid_prefix(data, n);
    if (good < n) return err_set(err, "%s:%d: bytes that are no UTF-8", path, line_of(data, good));
    const char *zero = memchr(data, 0, n);
    if (zero) return err_set(err, "%s:%d: a zero byte", path, line_of(data, (size_t)(zero - data)));
    *l = (Lines){.path = path, .at = data, .end = data + n};
    return 0;
}

char *lines_next(Lines *l) {
    if (l->at >= l->end) return NULL;
    char *line = l->at, *stop = memchr(line, '\n', (size_t)(l->end - line));
    if (!stop) stop = l->end; /* file_read leaves room for a NUL there */
    l->at = stop + 1;
    *stop = 0;
    if (stop > line && stop[-1] == '\r') stop[-1] = 0;
    l->number++;
    return strncmp(line, "\xEF\xBB\xBF", 3) ? line : line + 3;
}

char *lines_next_filled(Lines *l) {
    char *line = lines_next(l);
    while (line && text_is_blank(line)) line = lines_next(l);
    return line;
}

int lines_fail(const Lines *l, Err *err, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    text_make_printable(text);
    return err_set(err, "%s:%d: %s", l->path, l->number, text);
}

bool text_is_blank(const char *text) { return text[strspn(text, " \t\r\v\f\n")] == 0; }
