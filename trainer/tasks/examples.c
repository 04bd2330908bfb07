#include "trainer/tasks/examples.h"

#include <stdlib.h>

void examples_free(Examples *e) {
    free(e->first);
    free(e->label);
    free(e->line);
    free(e->text);
    free(e->second);
    free(e->file);
    *e = (Examples){0};
}

const char *examples_place(const Examples *e, int unit, char *out, size_t size) {
    if (e->line)
        snprintf(out, size, "%s:%d", e->path, e->line[unit]);
    else
        snprintf(out, size, "%s: image %d", e->path, unit);
    return out;
}
