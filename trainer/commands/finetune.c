#include "base/files.h"
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/team.h"
#include "trainer/commands/commands.h"
#include "trainer/finetune.h"
#include "trainer/ranks/agree.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/tasks/scores.h"
#include "trainer/stop.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int save_state(const CommandLine *line, const Finetune *f, Err *err) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "data_sha256", f->hash);
    cJSON_AddStringToObject(root, "tokenizer_sha256", f->tokenizer_hash);
    cJSON_AddStringToObject(root, "arithmetic", recipe_arithmetic(&f->settings->recipe));
    cJSON_AddItemToObject(root, "settings", settings_save(line->command, line->values));
    return run_state_write(root, f->settings->out, err);
}

/* ---- results ---- */

static void put_scores(Buffer *b, const Finetune *f, const char *suffix, const TaskScore score[SPLITS]) {
    for (int k = SPLIT_DEV; k < SPLITS; k++) {
        char name[40];
        snprintf(name, sizeof name, "%s%s", task_splits[k], suffix);
        if (!f->data[k].examples) continue;
        json_open(b, name, '{');
        task_score_put(b, &score[k]);
        json_close(b, '}');
    }
}

static void put_run(Buffer *b, const Finetune *f, const FinetuneResult *r) {
    json_open(b, NULL, '{');
    json_put_uint(b, "seed", r->seed);
    json_put_int(b, "epoch", r->epoch);
    json_put_int(b, "epochs", r->epochs);
    put_scores(b, f, "", r->score);
    if (finetune_has_noise(f)) put_scores(b, f, "_without_noise", r->quiet);
    json_close(b, '}');
}

/* {"accuracy": {"mean", "deviation"}, ...} of one split over the seeds, and a line for people. */
static void put_spread(Buffer *b, const FinetuneResult *results, int n, int split) {
    double *x = xcalloc((size_t)n, sizeof *x);
    const TaskScore *first = &results[0].score[split];
    json_open(b, task_splits[split], '{');
    printf("%s:", task_splits[split]);
    for (int m = 0; m < METRICS; m++) {
        for (int i = 0; i < n; i++) x[i] = results[i].score[split].metric[m];
        if (isnan(x[0])) continue;
        Spread s = score_spread(x, n);
        json_open(b, task_metric_keys[m], '{');
        json_put_double(b, "mean", s.mean);
        json_put_double(b, "deviation", s.deviation);
        json_close(b, '}');
        printf("%s %s %.4f", m ? "," : "", task_metrics[m], s.mean);
        if (n > 1) printf(" +- %.4f", s.deviation);
    }
    json_put_double(b, "majority", first->majority);
    json_put_double(b, "chance", first->chance);
    json_close(b, '}');
    printf(" (majority %.4f, chance %.4f)\n", first->majority, first->chance);
    free(x);
}

static int save_results(const Finetune *f, const FinetuneResult *results, int n, Err *err) {
    Buffer b = {0};
    json_open(&b, NULL, '{');
    json_open(&b, "runs", '[');
    for (int i = 0; i < n; i++) put_run(&b, f, &results[i]);
    json_close(&b, ']');
    json_put_text(&b, "metric", task_metrics[f->metric]);
    for (int k = 0; k < SPLITS; k++)
        if (f->data[k].truncated)
            printf("%d texts of %s were cut, %d words with them\n", f->data[k].truncated, f->examples[k].path,
                   f->data[k].cut_words);
    json_put_int(&b, "truncated", f->data[0].truncated + f->data[1].truncated + f->data[2].truncated);
    for (int k = SPLIT_DEV; k < SPLITS; k++)
        if (f->data[k].examples) put_spread(&b, results, n, k);
    json_close(&b, '}');
    char *text = json_end_text(&b);
    int rc = run_json_write(cJSON_Parse(text), f->settings->out, "results.json", err);
    free(text);
    return rc;
}

/* ---- all runs ---- */

static void print_plan(const Finetune *f) {
    const FinetuneSettings *s = f->settings;
    char list[200];
    printf("task: %s, %d labels: %s\n", task_names[f->config.task], f->config.n_labels,
           labels_show(&f->examples[SPLIT_TRAIN].labels, list, sizeof list));
    for (int k = 0; k < SPLITS; k++)
        if (f->data[k].examples)
            printf("%s: %d examples with %d labels from %s\n", task_splits[k], f->examples[k].n, f->examples[k].n_units,
                   f->examples[k].path);
    printf("plan: %lld epochs of %lld steps, %d %s from seed %lld, into %s\n", (long long)s->epochs,
           (long long)finetune_steps(f), s->seeds, s->seeds == 1 ? "run" : "runs", (long long)s->seed, s->out);
    if (ranks->n > 1) printf("ranks: %d\n", ranks->n);
    fflush(stdout);
}

/* With one seed the run's folder is --out, else one in it. */
static int run_folder(const FinetuneSettings *s, uint64_t seed, char dir[PATH_BYTES], Err *err) {
    char name[40];
    if (s->seeds == 1) return snprintf(dir, PATH_BYTES, "%s", s->out), 0;
    snprintf(name, sizeof name, "seed-%" PRIu64, seed);
    return path_join(dir, s->out, name, err) || (!ranks->rank && folder_create(dir, NULL, err)) ? -1 : 0;
}

static int run_seeds(Finetune *f, Err *err) {
    const FinetuneSettings *s = f->settings;
    FinetuneResult *results = xcalloc((size_t)s->seeds, sizeof *results);
    int rc = 0;
    for (int i = 0; i < s->seeds && rc == 0; i++) {
        char dir[PATH_BYTES];
        uint64_t seed = (uint64_t)s->seed + (uint64_t)i;
        if (s->seeds > 1) printf("seed %" PRIu64 "\n", seed);
        rc = run_folder(s, seed, dir, err) ? -1 : finetune_run(f, seed, dir, &results[i], err);
        if (rc < 0 && !f->begun && s->seeds > 1 && !ranks->rank) rmdir(dir);
    }
    if (rc == 0 && !ranks->rank) rc = save_results(f, results, s->seeds, err);
    free(results);
    return rc;
}

static int read_settings(const CommandLine *line, bool saved, cJSON **state, Err *err) {
    FinetuneSettings *s = line->values;
    if (saved && !(*state = run_state_read(s->out, err))) return -1;
    const cJSON *had = saved ? json_field(*state, "settings") : NULL;
    recipe_choose_precision(&s->recipe, had);
    if (saved && settings_restore(line, had, NULL, err)) return -1;
    if (s->train) return finetune_settings_finish(s, err);
    return saved ? err_set(err, "%s holds no run of finetune: its settings have no train", s->out)
                 : err_set(err, "--train is missing: %s holds no run to be resumed", s->out);
}

/* A new run's state is written, that of a saved one is of the same data. */
static int settle_state(const CommandLine *line, const cJSON *state, const Finetune *f, Err *err) {
    if (!state) return ranks->rank ? 0 : save_state(line, f, err);
    recipe_compare_arithmetic(&f->settings->recipe, cJSON_GetStringValue(json_field(state, "arithmetic")));
    const cJSON *began = json_field(state, "data_sha256");
    if (!json_is_text(began, f->hash))
        return err_set(err,
                       "the data, --config or --init are not what the run to be resumed began with (sha256 of all: %s, "
                       "it was %s)",
                       f->hash, show_json(began).text);
    const cJSON *had = json_field(state, "tokenizer_sha256"); /* none in an older program's */
    if (!cJSON_IsString(had) || !strcmp(had->valuestring, f->tokenizer_hash)) return 0;
    return err_set(err, "the tokenizer has changed (sha256 %s, the run to be resumed has %s)", f->tokenizer_hash,
                   had->valuestring);
}

static int prepare(const CommandLine *line, RunFolder *folder, cJSON **state, Finetune *f, Err *err) {
    const FinetuneSettings *s = line->values;
    if (agree_program(err)) return -1; /* a run refused by then leaves no folder */
    if (!ranks->rank && run_open(folder, s->out, s->resume, err)) return -1;
    if (agree_folder(s->out, &folder->saved, err) || read_settings(line, folder->saved, state, err)) return -1;
    if (agree_options(line, err) || ranks_check(s->accumulate, ranks->n, err) || finetune_open(f, s, err)) return -1;
    if (agree_on("the sha256 of the data, --config and --init", f->hash, err)) return -1;
    if (agree_on("the sha256 of the tokenizer", f->tokenizer_hash, err)) return -1;
    return settle_state(line, *state, f, err);
}

static int finetune(const CommandLine *line, RunFolder *folder, Err *err) {
    Finetune *f = xcalloc(1, sizeof *f);
    cJSON *state = NULL;
    int rc = prepare(line, folder, &state, f, err);
    if (rc == 0) {
        print_plan(f);
        stop_install();
        rc = run_seeds(f, err);
    }
    if (rc < 0 && !f->begun && folder->lock >= 0) run_withdraw(folder);
    finetune_close(f);
    free(f);
    cJSON_Delete(state);
    return rc;
}

static int run(const CommandLine *line) {
    const FinetuneSettings *s = line->values;
    RunFolder folder = {.lock = -1};
    Err err;
    FinetuneSettings copy = *s;
    if (recipe_check_given(&s->recipe, line, &err) || (!s->resume && finetune_settings_finish(&copy, &err)))
        return command_fail(line, &err, EXIT_USAGE);
    team_resize(s->threads);
    int rc = finetune(line, &folder, &err);
    run_close(&folder);
    if (rc < 0) return command_fail(line, &err, EXIT_FAILED);
    if (rc > 0) {
        printf("stopped by signal %d: --resume continues behind the last whole epoch\n", rc);
        return 128 + rc;
    }
    printf("done: %s\n", s->out);
    return EXIT_DONE;
}

const Command command_finetune = {
    .name = "finetune",
    .summary = "Trains a network on labelled texts, words or images.",
    .details =
        "Formats: jsonl {\"text\", \"text_b\"?, \"label\"} a line; tsv with a header, GLUE's own files as well; cola "
        "and trec as those data "
        "sets come; conll, a word a line with its label in the last column; idx, MNIST's images with their labels "
        "beside; safetensors with images and labels. A bad line is named, and nothing is trained then. SIGINT, "
        "SIGTERM and SIGHUP end with status 130, 143 and 129.",
    .size = sizeof(FinetuneSettings),
    .options = finetune_options,
    .n_options = FINETUNE_OPTIONS_N,
    .run = run,
};
