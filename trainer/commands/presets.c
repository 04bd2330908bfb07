#include "base/err.h"
#include "base/machine.h"
#include "base/team.h"
#include "trainer/commands/commands.h"
#include "trainer/cost.h"
#include "weights/presets.h"
#include "weights/presets_words.h"

#include <math.h>
#include <string.h>

enum { BATCH = 8, STEPS = 1000 };
static const double RECOMPUTE_TIME = 1.2;

typedef struct Presets {
    int threads;
    OptionList words;
} Presets;

static bool is_asked_for(const Presets *p, const char *name) {
    for (int i = 0; i < p->words.n; i++)
        if (!strstr(name, p->words.items[i])) return false;
    return true;
}

static bool any_is_asked_for(const Presets *p) {
    char name[PRESET_NAME];
    for (int i = 0; preset_name(i, name); i++)
        if (is_asked_for(p, name)) return true;
    for (int i = 0; preset_words_name(i); i++)
        if (is_asked_for(p, preset_words_name(i))) return true;
    return false;
}

static double two_digits(double x) {
    double unit = pow(10, floor(log10(x)) - 1);
    return unit * round(x / unit);
}

/* rate is that of *width, the last preset's. */
static int print_row(const char *name, int *width, double *rate, Err *err) {
    Config c;
    Model m;
    char memory[2][MEMORY_TEXT], time[COST_TIME];
    if (preset_config(&c, name, err) || model_init(&m, &c, err)) return -1;
    if (c.hidden_size != *width) *rate = cost_rate(*width = c.hidden_size);
    for (int i = 0; i < 2; i++) {
        CostMemory need = cost_memory(&m, (int64_t)BATCH * c.max_positions, i, false, 1);
        memory_text(need.weights + need.activations, memory[i]);
    }
    double seconds = cost_seconds(&m, *rate), tokens = (double)STEPS * BATCH * c.max_positions;
    printf("%-23s %10zu %6d %8s %9s %8g  %s\n", name, params_count(&m.params), c.max_positions, memory[0], memory[1],
           two_digits(1 / seconds), cost_time_text(tokens * seconds, time));
    model_free(&m);
    return 0;
}

/* Of finetune too, whose rows are names alone. */
static void print_words(const Presets *p) {
    const char *heading = "Of finetune, as large as its --vectors and as many labels as its data:\n";
    for (int i = 0; preset_words_name(i); i++) {
        if (!is_asked_for(p, preset_words_name(i))) continue;
        printf("%s%s\n", heading, preset_words_name(i));
        heading = "";
    }
}

static int print_table(const Presets *p, Err *err) {
    char name[PRESET_NAME];
    double rate = 0;
    int width = 0, rows = 0;
    for (int i = 0; preset_name(i, name); i++) {
        if (!is_asked_for(p, name)) continue;
        if (!rows++)
            printf("%-23s %10s %6s %8s %9s %8s  %s\n", "preset", "parameters", "window", "memory", "--recomp.",
                   "tokens/s", "time");
        if (print_row(name, &width, &rate, err)) return -1;
    }
    if (rows)
        printf("About, for --batch %d and --steps %d in f32 on %d %s: memory, and memory\n"
               "with --recompute, which takes %.1f times as long; speed by a matrix product of\n"
               "the preset's width, measured just now.\n",
               BATCH, STEPS, team_size(), team_size() == 1 ? "thread" : "threads", RECOMPUTE_TIME);
    return 0;
}

static int run(const CommandLine *line) {
    const Presets *p = line->values;
    Err err;
    team_resize(p->threads);
    if (!any_is_asked_for(p)) {
        err_set(&err, "no preset has %s\"%.60s\" in its name", p->words.n > 1 ? "all words from " : "",
                p->words.items[0]);
        return command_fail(line, &err, EXIT_FAILED);
    }
    if (print_table(p, &err)) return command_fail(line, &err, EXIT_FAILED);
    print_words(p);
    return EXIT_DONE;
}

#define AT(member) offsetof(Presets, member)
static const Option options[] = {
    {"WORD", OPTION_OPERANDS, AT(words), .help = "only those with all of these in their names: noiseformer, tiny",
     .absent = "all"},
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that would train; 0: all cores that this process may use"},
};
const Command command_presets = {
    .name = "presets",
    .summary = "Lists what --config takes by name: parameters, memory and time to train.",
    .size = sizeof(Presets),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
