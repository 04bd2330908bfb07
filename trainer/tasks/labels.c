#include "trainer/tasks/labels.h"

#include "base/memory.h"
#include "model/shape.h"

#include <stdlib.h>
#include <string.h>

int labels_find(const Labels *l, const char *name) {
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->names[i], name)) return i;
    return -1;
}

int labels_add(Labels *l, const char *name, Err *err) {
    int found = labels_find(l, name);
    size_t n = strlen(name);
    if (found >= 0) return found;
    if (n == 0) return err_set(err, "the label is empty");
    if (n >= LABEL_BYTES)
        return err_set(err, "the label \"%.40s\u2026\" has %zu bytes, at most %d", name, n, LABEL_BYTES - 1);
    if (l->n == LABELS_MOST) return err_set(err, "\"%s\" is label number %d, at most %d", name, l->n + 1, LABELS_MOST);
    l->names = xrealloc(l->names, ((size_t)l->n + 1) * sizeof *l->names);
    memcpy(l->names[l->n], name, n + 1);
    return l->n++;
}

int labels_of(Labels *l, const Config *c, Err *err) {
    for (int i = 0; i < c->labels.n; i++)
        if (labels_add(l, config_label(c, i), err) < 0) return -1;
    return 0;
}

Labels labels_copy(const Labels *l) {
    Labels copy = {.names = xcalloc((size_t)MAX(l->n, 1), sizeof *copy.names), .n = l->n};
    for (int i = 0; i < l->n; i++) memcpy(copy.names[i], l->names[i], LABEL_BYTES);
    return copy;
}

void labels_free(Labels *l) {
    free(l->names);
    *l = (Labels){0};
}

static bool is_number(const char *name) {
    char *end;
    strtol(name, &end, 10);
    return *end == 0;
}

static int by_number(const void *a, const void *b) {
    long x = strtol(a, NULL, 10), y = strtol(b, NULL, 10);
    return x != y ? (x > y) - (x < y) : strcmp(a, b);
}

static int by_bytes(const void *a, const void *b) { return strcmp(a, b); }

void labels_sort(Labels *l, int *place) {
    Labels old = labels_copy(l);
    bool numbers = true;
    for (int i = 0; i < l->n; i++) numbers &= is_number(l->names[i]);
    if (l->n) qsort(l->names, (size_t)l->n, sizeof *l->names, numbers ? by_number : by_bytes);
    for (int i = 0; i < l->n; i++) place[i] = labels_find(l, old.names[i]);
    labels_free(&old);
}

const char *labels_show(const Labels *l, char *out, size_t size) {
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < l->n; i++) {
        bool fits = used + strlen(l->names[i]) + 8 < size;
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", fits ? l->names[i] : "\u2026");
        if (!fits) break;
    }
    return out;
}
