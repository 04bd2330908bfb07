#include "base/memory.h"
#include "trainer/commands/commands.h"
#include "trainer/report/comparison.h"

#include <stdlib.h>

typedef struct Compare {
    OptionList runs;
    const char *against, *svg, *csv;
    double loss;
} Compare;

/* What is looked at; those that are not finished are told, and left out. */
typedef struct Runs {
    PastRun *runs;
    int n;
} Runs;

static int take(Runs *all, const char *dir, Err *err) {
    PastRun *r = &all->runs[all->n];
    if (past_run_load(r, dir, err)) return -1;
    if (past_run_finished(r)) {
        all->n++;
        return 0;
    }
    if (r->n == 0 && r->done == r->steps) {
        err_set(err, "%s has no validation loss: it was trained with --val none", dir);
        past_run_free(r);
        return -1;
    }
    printf("left out: %s has done %lld of %lld steps\n", dir, (long long)r->done, (long long)r->steps);
    past_run_free(r);
    return 0;
}

static int load(Runs *all, const OptionList *folders, Err *err) {
    char **dirs = NULL;
    int n = 0, rc = 0;
    for (int i = 0; i < folders->n && rc == 0; i++) rc = past_runs_find(folders->items[i], &dirs, &n, err);
    all->runs = xcalloc((size_t)n + 1, sizeof *all->runs);
    for (int i = 0; i < n; i++) {
        if (rc == 0) rc = take(all, dirs[i], err);
        free(dirs[i]);
    }
    free(dirs);
    if (rc == 0 && all->n == 0) rc = err_set(err, "none of the runs is finished");
    return rc;
}

static int compare(const Compare *o, const Runs *all, Err *err) {
    Comparison c;
    if (comparison_make(&c, all->runs, all->n, o->against, o->loss, err)) return -1;
    comparison_print(&c, o->loss, stdout);
    int rc = o->csv ? comparison_save_csv(&c, o->csv, err) : 0;
    if (rc == 0 && o->svg) rc = comparison_draw(&c, o->svg, err);
    comparison_free(&c);
    return rc;
}

static int run(const CommandLine *line) {
    const Compare *o = line->values;
    Runs all = {0};
    Err err;
    int rc = load(&all, &o->runs, &err) || compare(o, &all, &err) ? -1 : 0;
    for (int i = 0; i < all.n; i++) past_run_free(&all.runs[i]);
    free(all.runs);
    return rc ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

#define AT(member) offsetof(Compare, member)
static const Option options[] = {
    {"RUN", OPTION_OPERANDS, AT(runs), .help = "folder of a training, or of several"},
    {"against", OPTION_TEXT, AT(against), "NETWORK", .help = "whose runs all others are compared with",
     .absent = "that of the first run"},
    {"loss", OPTION_REAL, AT(loss), "X", 0, 100, .unit = "nats", .help = "tell steps and seconds until that loss",
     .absent = "that of the run compared with"},
    {"svg", OPTION_TEXT, AT(svg), "FILE", .help = "picture to write"},
    {"csv", OPTION_TEXT, AT(csv), "FILE", .help = "every evaluation, to write"},
};
const Command command_compare = {
    .name = "compare",
    .summary = "Sets trainings on one text beside each other, seed by seed.",
    .details =
        "Runs that differ in their seed alone belong together, and those that differ in seed and learning rate are "
        "one network, judged by its best rate.",
    .size = sizeof(Compare),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
