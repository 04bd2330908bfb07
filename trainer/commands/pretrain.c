#include "base/err.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/team.h"
#include "base/text.h"
#include "model/shape.h"
#include "trainer/commands/commands.h"
#include "trainer/report/plot.h"
#include "trainer/run.h"
#include "trainer/ranks/ranks.h"
#include "trainer/stop.h"

#include <math.h>
#include <stdlib.h>

enum { MANY_EPOCHS = 100 };

/* Options that change nothing: a sweep gives them to networks with noise and without. */
static void print_idle(const Settings *s, const Config *c) {
    if (c->noise.scope == NOISE_NONE && s->noise_warmup > 0)
        printf("warning: --noise-warmup %lld changes nothing, the config has no noise\n", (long long)s->noise_warmup);
    if (c->noise.scope == NOISE_NONE && s->noise_per_sequence)
        printf("warning: --noise-per-sequence changes nothing, the config has no noise\n");
    if (s->noise_assign != ASSIGN_HARD && !config_noise_components(c))
        printf("warning: --noise-assign %s changes nothing, the sequences of the config have no components\n",
               settings_assigns[s->noise_assign]);
}

/* What is possible and yet hardly meant. */
static void print_doubts(const Run *r, double epochs) {
    int vocab = r->config.vocab_size, tokens = tokenizer_vocab_size(r->tokenizer);
    if (epochs > MANY_EPOCHS)
        printf("warning: every window is read %.0f times; the model will know the text by heart (more --data, or fewer "
               "--steps)\n",
               epochs);
    if (vocab > 2 * tokens)
        printf("warning: vocab_size is %d, but the tokenizer has %d tokens: %d rows of the embedding are never used\n",
               vocab, tokens, vocab - tokens);
    for (int i = 0; i < r->settings->data.n; i++)
        if (text_ends(r->settings->data.items[i], ".jsonl"))
            printf("warning: %s is read as it stands, braces and all; noised-train tokenize takes the texts out of its "
                   "lines\n",
                   r->settings->data.items[i]);
    print_idle(r->settings, &r->config);
}

static double epochs_of(const Run *r, int source, double windows) {
    const WindowRow *row = &r->windows.rows[source];
    return windows * row->weight / (double)r->windows.block / (double)row->n;
}

static double most_epochs(const Run *r, double windows) {
    double most = 0;
    for (int i = 0; i < r->windows.n_rows; i++) most = fmax(most, epochs_of(r, i, windows));
    return most;
}

static void print_source(const Run *r, int source, double windows) {
    const Corpus *c = &r->corpora[source];
    size_t held_out = c->val.n - (c->val.next ? c->val.next->n : 0);
    printf("data: %zu tokens from %zu bytes (%s), %zu windows of %d, %zu tokens held out; vocabulary %d\n", c->train.n,
           c->train_bytes, c->rebuilt ? "encoded now" : "cached", r->windows.rows[source].n, r->window, held_out,
           r->config.vocab_size);
    if (r->n_corpora > 1)
        printf("      %s: %d windows of %llu, read %.2f times\n", c->path, r->weights[source],
               (unsigned long long)r->windows.block, epochs_of(r, source, windows));
}

static void print_plan(const Run *r) {
    const Settings *s = r->settings;
    const Config *c = &r->config;
    const Model *m = &r->training.model;
    double rows = (double)(s->batch * s->accumulate * r->window);
    printf("model: %s%s%s%s, %d layers, %d heads, width %d, %zu parameters in %d tensors\n", c->attention.kind->name,
           c->noise.scope ? " + noise per " : "", c->noise.scope ? scope_names[c->noise.scope] : "",
           c->noble.rank ? " + noble" : "", c->n_layers, c->n_heads, c->hidden_size, params_count(&m->params),
           m->params.n);
    if (c->sas.heads) printf("sas: %d heads of %d\n", c->sas.heads, c->sas.head_dim);
    for (int i = 0; i < r->n_corpora; i++) print_source(r, i, (double)s->steps * rows / r->window);
    if (r->corpora->val.next) printf("held out: %zu tokens of all\n", r->corpora->val.n);
    double epochs = most_epochs(r, (double)s->steps * rows / r->window);
    printf("plan: %lld steps of %.0f tokens, %.2f epochs, seed %lld, %d %s, into %s\n", (long long)s->steps, rows,
           epochs, (long long)s->seed, team_size(), team_size() == 1 ? "thread" : "threads", s->out);
    char traffic[MEMORY_TEXT];
    if (ranks->n > 1)
        printf("ranks: %d, each sends %s a step\n", ranks->n,
               memory_text((size_t)slices_bytes((double)r->training.optimizer.n, ranks->n,
                                                (double)step_sum_meetings(s->accumulate)),
                           traffic));
    print_doubts(r, epochs);
    if (s->recipe.perturb) printf("weight noise in %d bins\n", perturb_bins(&m->params));
    if (r->folder.saved) printf("resumed after step %lld\n", (long long)r->training.step);
    fflush(stdout);
}

/* A picture is no reason to call a training failed. */
static void draw(const char *dir) {
    char path[PATH_BYTES];
    Err err;
    if (path_join(path, dir, "plot.svg", &err) || plot_run(dir, path, &err))
        printf("warning: no picture of the training: %s\n", err.msg);
    else
        printf("picture: %s\n", path);
}

/* As run_train. */
static int pretrain(Run *r, Err *err) {
    if (run_prepare(r, err)) return -1;
    print_plan(r);
    stop_install();
    return run_train(r, err);
}

static int run(const CommandLine *line) {
    Settings *s = line->values;
    Err err;
    if (settings_check(line, &err)) return command_fail(line, &err, EXIT_USAGE);
    team_resize(s->threads);
    Run *r = xcalloc(1, sizeof *r);
    *r = (Run){.line = line, .settings = s, .folder = {.lock = -1}};
    int rc = pretrain(r, &err);
    run_free(r);
    free(r);
    if (rc < 0) return command_fail(line, &err, EXIT_FAILED);
    if (rc > 0) return 128 + rc;
    if (!ranks->rank) draw(s->out);
    printf("done: %s\n", s->out);
    return EXIT_DONE;
}

const Command command_pretrain = {
    .name = "pretrain",
    .summary = "Trains a model on texts, anew or from where a run was stopped.",
    .details =
        "SIGINT, SIGTERM and SIGHUP finish the step, save, and end with status 130, 143 and 129; --resume continues.",
    .size = sizeof(Settings),
    .options = settings_options,
    .n_options = SETTINGS_N,
    .run = run,
};
