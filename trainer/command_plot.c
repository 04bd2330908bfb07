#include "base/files.h"
#include "trainer/commands.h"
#include "trainer/compare.h"
#include "trainer/plot.h"

#include <sys/stat.h>

typedef struct Plot {
    const char *run, *out;
} Plot;

static int run(const CommandLine *line) {
    const Plot *p = line->values;
    char path[PATH_BYTES];
    Err err;
    struct stat st;
    bool csv = stat(p->run, &st) == 0 && S_ISREG(st.st_mode);
    const char *out = p->out ? p->out : path;
    int rc = p->out ? 0 : path_join(path, p->run, "plot.svg", &err);
    if (csv && !p->out) rc = err_set(&err, "--out is missing: which picture to write of %.200s", p->run);
    if (rc == 0) rc = csv ? compare_curves(p->run, out, &err) : plot_run(p->run, out, &err);
    if (rc) return command_fail(line, &err, EXIT_FAILED);
    printf("%s\n", out);
    return EXIT_DONE;
}

#define AT(member) offsetof(Plot, member)
static const Option options[] = {
    {"RUN", OPTION_OPERAND, AT(run),
     .help = "folder of a training, or a CSV of several: member,seed,step,train_loss,val_loss"},
    {"out", OPTION_TEXT, AT(out), "FILE", .help = "picture to write", .absent = "plot.svg in the folder"},
};
const Command command_plot = {
    .name = "plot",
    .summary = "Draws a training: loss, validation loss, learning rate and the noise of every head, as SVG.",
    .details = "Of a CSV: the validation losses of its members, and their differences from those of the first.",
    .size = sizeof(Plot),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
