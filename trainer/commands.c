#include "trainer/commands.h"

#include "base/err.h"
#include "base/utf8.h"

int command_fail(const char *command, const Err *err, int status) {
    char text[sizeof err->msg];
    snprintf(text, sizeof text, "%s", err->msg);
    text_make_printable(text);
    fprintf(stderr, command ? "noised-train: %s: %s\n" : "noised-train: %s%s\n", command ? command : "", text);
    return status;
}
