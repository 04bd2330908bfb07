#include "server/metrics/print.h"

#include "base/err.h"

#include <string.h>

void print_head(Buffer *b, const char *name, const char *type, const char *help) {
    buffer_print(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void print_series(Buffer *b, const char *name, const char *labels, double value) {
    buffer_print(b, *labels ? "%s{%s} %.15g\n" : "%s%s %.15g\n", name, labels, value);
}

void print_alone(Buffer *b, const char *name, const char *type, const char *help, double value) {
    print_head(b, name, type, help);
    print_series(b, name, "", value);
}

/* The format knows these three escapes and no others. */
void print_label_value(Buffer *b, const char *text) {
    buffer_text(b, "\"");
    for (; *text; text++) {
        if (*text == '\n')
            buffer_text(b, "\\n");
        else if (*text == '"' || *text == '\\')
            buffer_print(b, "\\%c", *text);
        else
            buffer_append(b, text, 1);
    }
    buffer_text(b, "\"");
}
