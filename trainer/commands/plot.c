#include "base/files.h"
#include "trainer/commands/commands.h"
#include "trainer/report/plot.h"

typedef struct Plot {
    const char *run, *out;
} Plot;

static int run(const CommandLine *line) {
    const Plot *p = line->values;
    char path[PATH_BYTES];
    Err err;
    const char *out = p->out ? p->out : path;
    if ((!p->out && path_join(path, p->run, "plot.svg", &err)) || plot_run(p->run, out, &err))
        return command_fail(line, &err, EXIT_FAILED);
    printf("%s\n", out);
    return EXIT_DONE;
}

#define AT(member) offsetof(Plot, member)
static const Option options[] = {
    {"RUN", OPTION_OPERAND, AT(run), .help = "folder of a training"},
    {"out", OPTION_TEXT, AT(out), "FILE", .help = "picture to write", .absent = "plot.svg in the folder"},
};
const Command command_plot = {
    .name = "plot",
    .summary = "Draws a training: loss, validation loss, learning rate and the noise of every head, as SVG.",
    .size = sizeof(Plot),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
