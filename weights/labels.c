#include "weights/labels.h"

#include <stdlib.h>
#include <string.h>

const char *labels_name(const Labels *l, int i) {
    const char *name = l->names;
    BUG_ON(i < 0 || i >= l->n);
    while (i--) name += strlen(name) + 1;
    return name;
}

int labels_find(const Labels *l, const char *name) {
    const char *at = l->names;
    for (int i = 0; i < l->n; i++, at += strlen(at) + 1)
        if (!strcmp(at, name)) return i;
    return -1;
}

int labels_add(Labels *l, const char *name, Err *err) {
    int found = labels_find(l, name);
    size_t n = strlen(name);
    if (found >= 0) return found;
    if (n == 0) return err_set(err, "the label is empty");
    if (n >= LABEL_BYTES)
        return err_set(err, "the label \"%.40s\u2026\" has %zu bytes, at most %d", name, n, LABEL_BYTES - 1);
    if (l->used + n + 1 > LABELS_BYTES)
        return err_set(err, "\"%s\" is label number %d, with which the names have more than %d bytes", name, l->n + 1,
                       LABELS_BYTES);
    memcpy(l->names + l->used, name, n + 1);
    l->used += n + 1;
    return l->n++;
}

static bool is_number(const char *name) {
    char *end;
    strtol(name, &end, 10);
    return *end == 0;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int by_number(const void *a, const void *b) {
    long x = strtol(*(const char *const *)a, NULL, 10), y = strtol(*(const char *const *)b, NULL, 10);
    return x != y ? (x > y) - (x < y) : by_bytes(a, b);
}

void labels_sort(Labels *l, int *place) {
    const Labels old = *l;
    const char *names[LABELS_MOST];
    bool numbers = true;
    for (int i = 0; i < old.n; i++) {
        names[i] = labels_name(&old, i);
        numbers &= is_number(names[i]);
    }
    if (old.n) qsort(names, (size_t)old.n, sizeof *names, numbers ? by_number : by_bytes);
    char *at = l->names;
    for (int i = 0; i < old.n; i++) at = stpcpy(at, names[i]) + 1;
    for (int i = 0; i < old.n; i++) place[i] = labels_find(l, labels_name(&old, i));
}

const char *labels_show(const Labels *l, char *out, size_t size) {
    size_t used = 0;
    *out = 0;
    for (int i = 0; i < l->n; i++) {
        const char *name = labels_name(l, i);
        bool fits = used + strlen(name) + 8 < size;
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", fits ? name : "\u2026");
        if (!fits) break;
    }
    return out;
}
