#include "trainer/commands.h"

#include "base/err.h"

int command_fail(const char *command, const Err *err, int status) {
    char text[sizeof err->msg];
    snprintf(text, sizeof text, "%s", err->msg);
    for (char *p = text; *p; p++) /* a bad file may name anything; a terminal must not obey it */
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
    fprintf(stderr, command ? "noised-train: %s: %s\n" : "noised-train: %s%s\n", command ? command : "", text);
    return status;
}
