#include "base/err.h"
#include "base/machine.h"
#include "base/team.h"
#include "trainer/commands.h"
#include "trainer/cost.h"
#include "weights/presets.h"
#include "weights/presets_words.h"

#include <math.h>

enum { BATCH = 8, STEPS = 1000 };
static const double RECOMPUTE_TIME = 1.2;

typedef struct Presets {
    int threads;
} Presets;

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
        CostMemory need = cost_memory(&m, (int64_t)BATCH * c.max_positions, i);
        memory_text(need.weights + need.activations, memory[i]);
    }
    double seconds = cost_seconds(&m, *rate), tokens = (double)STEPS * BATCH * c.max_positions;
    printf("%-23s %10zu %6d %8s %9s %8g  %s\n", name, params_count(&m.params), c.max_positions, memory[0], memory[1],
           two_digits(1 / seconds), cost_time_text(tokens * seconds, time));
    model_free(&m);
    return 0;
}

static int run(const CommandLine *line) {
    const Presets *p = line->values;
    char name[PRESET_NAME];
    Err err;
    team_resize(p->threads);
    double rate = 0;
    int width = 0;
    printf("%-23s %10s %6s %8s %9s %8s  %s\n", "preset", "parameters", "window", "memory", "--recomp.", "tokens/s",
           "time");
    for (int i = 0; preset_name(i, name); i++)
        if (print_row(name, &width, &rate, &err)) return command_fail(line, &err, EXIT_FAILED);
    printf("About, for --batch %d and --steps %d in f32 on %d %s: memory, and memory\n"
           "with --recompute, which takes %.1f times as long; speed by a matrix product of\n"
           "the preset's width, measured just now.\n"
           "Of finetune, as large as its --vectors and as many labels as its data:\n",
           BATCH, STEPS, team_size(), team_size() == 1 ? "thread" : "threads", RECOMPUTE_TIME);
    for (int i = 0; preset_words_name(i); i++) puts(preset_words_name(i));
    return EXIT_DONE;
}

#define AT(member) offsetof(Presets, member)
static const Option options[] = {
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
