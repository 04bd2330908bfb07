#include "trainer/tasks/examples_reader.h"

#include "base/memory.h"

#include <stdlib.h>

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
