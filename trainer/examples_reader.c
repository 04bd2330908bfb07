#include "trainer/examples_reader.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int line_of(const char *data, size_t at) {
    int line = 1;
    for (size_t i = 0; i < at; i++) line += data[i] == '\n';
    return line;
}

int lines_open(Lines *l, Examples *e, Err *err) {
    size_t n;
    e->file = file_read(e->path, EXAMPLES_FILE_MAX, &n, err);
    if (!e->file) return -1;
    size_t good = utf8_valid_prefix(e->file, n);
    if (good < n) return err_set(err, "%s:%d: bytes that are no UTF-8", e->path, line_of(e->file, good));
    const char *zero = memchr(e->file, 0, n);
    if (zero) return err_set(err, "%s:%d: a zero byte", e->path, line_of(e->file, (size_t)(zero - e->file)));
    *l = (Lines){.path = e->path, .at = e->file, .end = e->file + n};
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

int examples_add(Examples *e, const Lines *l, const char *text, const char *second, const char *label,
                 const Labels *known, Err *err) {
    Err why;
    if (text_is_blank(text)) return lines_fail(l, err, "the text is empty");
    if (second && text_is_blank(second)) return lines_fail(l, err, "the second text is empty");
    int number = known ? labels_find(known, label) : labels_add(&e->labels, label, &why);
    if (known && number < 0) {
        char list[256];
        return lines_fail(l, err, "unknown label \"%.60s\"; there are %s", label,
                          labels_show(known, list, sizeof list));
    }
    if (number < 0) return lines_fail(l, err, "%s", why.msg);
    if (e->n_units == e->capacity) {
        e->capacity = MAX(64, 2 * e->capacity);
        size_t n = (size_t)e->capacity;
        e->label = xrealloc(e->label, n * sizeof *e->label);
        e->line = xrealloc(e->line, n * sizeof *e->line);
        e->text = xrealloc(e->text, n * sizeof *e->text);
        e->second = xrealloc(e->second, n * sizeof *e->second);
        e->first = xrealloc(e->first, (n + 1) * sizeof *e->first);
        if (e->n_units == 0) e->first[0] = 0;
    }
    e->label[e->n_units] = number;
    e->line[e->n_units] = l->number;
    e->text[e->n_units] = text;
    e->second[e->n_units++] = second;
    return 0;
}

void examples_end_example(Examples *e) {
    if (e->n_units > (e->n ? e->first[e->n] : 0)) e->first[++e->n] = e->n_units;
}

int examples_label_images(Examples *e, const uint8_t *bytes, const char *path, const Labels *known, Err *err) {
    e->kind = EXAMPLES_IMAGES;
    e->n_units = e->n;
    e->label = xcalloc((size_t)e->n, sizeof *e->label);
    e->first = xcalloc((size_t)e->n + 1, sizeof *e->first);
    for (int i = 0; i < e->n; i++) {
        char name[8], list[256];
        snprintf(name, sizeof name, "%d", bytes[i]);
        e->first[i + 1] = i + 1;
        e->label[i] = known ? labels_find(known, name) : labels_add(&e->labels, name, err);
        if (e->label[i] < 0)
            return err_set(err, "%s: unknown label %d of image %d; there are %s", path, bytes[i], i,
                           labels_show(known, list, sizeof list));
    }
    return 0;
}
