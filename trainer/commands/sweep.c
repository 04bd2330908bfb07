#include "base/memory.h"
#include "base/team.h"
#include "trainer/commands/commands.h"
#include "trainer/cost.h"
#include "trainer/stop.h"
#include "trainer/report/sweep.h"
#include "weights/presets.h"

#include <string.h>

/* Of pretrain's options --config, --lr, --seed and --resume are not the sweep's. */
enum { SEEDS_MOST = 1000, OWN = 3, WITHOUT = 4 };

typedef struct Values {
    Settings settings; /* first: the offsets of settings_options are this struct's */
    OptionList configs, rates;
    int64_t seeds;
} Values;

static void say_left(const Sweep *s) {
    char time[COST_TIME];
    int done = sweep_done(s);
    printf("sweep: %d of %d runs done", done, s->n);
    if (done < s->n) printf(", about %s left", cost_time_text(sweep_seconds_left(s), time));
    printf("\n");
    fflush(stdout);
}

static int train_one(const CommandLine *line, SweepRun *r) {
    CommandLine own = {.program = line->program};
    Settings settings;
    Err err;
    printf("\n%s\n", r->dir);
    BUG_ON(command_line_read(&own, &command_pretrain, &settings, r->n_words, r->words, &err));
    int status = command_pretrain.run(&own);
    command_line_free(&own);
    sweep_look(r);
    return status;
}

/* A run that fails, such as one that diverges at too high a rate, is no reason to go without the others. */
static int train_all(const CommandLine *line, Sweep *s) {
    int failed = 0;
    for (SweepRun *r = s->runs; r < s->runs + s->n; r++) {
        if (r->done == 1) continue;
        int status = train_one(line, r);
        if (status > EXIT_USAGE) {
            printf("sweep: stopped, the same command goes on from here\n");
            return status;
        }
        failed += status != EXIT_DONE;
        say_left(s);
    }
    for (SweepRun *r = s->runs; r < s->runs + s->n; r++)
        if (r->done < 1) printf("sweep: not finished: %s\n", r->dir);
    return failed ? EXIT_FAILED : EXIT_DONE;
}

static int run(const CommandLine *line) {
    Values *v = line->values;
    Sweep s;
    Err err;
    if (sweep_check_options(&v->settings, &v->rates, &err)) return command_fail(line, &err, EXIT_USAGE);
    team_resize(v->settings.threads);
    if (sweep_make(&s, &command_pretrain, line, &v->settings, &v->configs, &v->rates, v->seeds, &err))
        return command_fail(line, &err, EXIT_FAILED);
    say_left(&s);
    int status = train_all(line, &s);
    sweep_free(&s);
    return status;
}

#define AT(member) offsetof(Values, member)
static Option options[SETTINGS_N + OWN - WITHOUT] = {
    {"config", OPTION_LIST, AT(configs), "FILE|PRESET...", .offer = preset_name, .required = true,
     .help = "networks to train"},
    {"lr", OPTION_LIST, AT(rates), "X...", .required = true, .help = "peak learning rates for each of them"},
    {"seeds", OPTION_INT64, AT(seeds), "N", 1, SEEDS_MOST, "3", .help = "seeds for each of these: 1 to N"},
};

void command_sweep_prepare(void) {
    Option *next = options + OWN;
    for (const Option *o = settings_options; o < settings_options + SETTINGS_N; o++) {
        bool out = !strcmp(o->name, "out");
        if (sweep_tells(o->name) && !out) continue;
        BUG_ON(next == options + COUNTOF(options));
        *next = *o;
        if (!strcmp(o->name, "data")) next->unless = NULL;
        if (out) next->help = "folder for a folder of each run";
        next++;
    }
}

const Command command_sweep = {
    .name = "sweep",
    .summary = "Trains networks on one text with several learning rates and seeds, for `compare`.",
    .details =
        "Every run is one of `pretrain` with these options, in a folder NETWORK-lrRATE-seedN of its own. The same "
        "command goes on where it was stopped; more networks, rates or seeds may be asked for then.",
    .size = sizeof(Values),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
