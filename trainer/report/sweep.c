#include "trainer/report/sweep.h"

#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/text.h"
#include "trainer/cost.h"
#include "trainer/report/past_run.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/text/corpus_index.h"
#include "trainer/text/texts.h"
#include "weights/config_json.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what a run is told ---- */

static const Option *pretrain_option(const char *name) {
    for (const Option *o = settings_options; o < settings_options + SETTINGS_N; o++)
        if (!strcmp(o->name, name)) return o;
    return NULL;
}

static void add_word(SweepRun *r, const char *text) {
    r->words = xrealloc(r->words, (size_t)(r->n_words + 1) * sizeof *r->words);
    r->words[r->n_words++] = xstrdup(text);
}

static void add_pair(SweepRun *r, const char *option, const char *value) {
    add_word(r, option);
    add_word(r, value);
}

static void add_given(SweepRun *r, const Option *o, const Settings *settings) {
    char text[OPTION_TEXT_BYTES];
    snprintf(text, sizeof text, "--%s", o->name);
    add_word(r, text);
    if (o->kind == OPTION_SWITCH) return;
    if (o->kind != OPTION_LIST) {
        option_text(o, settings, text);
        add_word(r, text);
        return;
    }
    const OptionList *list = (const OptionList *)((const char *)settings + o->offset);
    for (int i = 0; i < list->n; i++) add_word(r, list->items[i]);
}

bool sweep_tells(const char *option) {
    static const char *const told[] = {"config", "lr", "seed", "out", "resume", NULL};
    return text_is_in(option, told);
}

int sweep_check_options(const Settings *settings, const OptionList *rates, Err *err) {
    for (int i = 0; i < rates->n; i++) {
        Settings s = *settings;
        if (option_set(pretrain_option("lr"), &s, rates->items[i], err) || settings_finish(&s, err)) return -1;
    }
    return 0;
}

/* --resume begins a run too. */
static void tell(SweepRun *r, const CommandLine *line, const Settings *settings, const char *config, const char *rate,
                 const char *seed) {
    add_pair(r, "--config", config);
    add_pair(r, "--lr", rate);
    add_pair(r, "--seed", seed);
    add_pair(r, "--out", r->dir);
    add_word(r, "--resume");
    for (int i = 0; i < line->command->n_options; i++) {
        const Option *o = pretrain_option(line->command->options[i].name);
        if (line->given[i] && o && !sweep_tells(o->name)) add_given(r, o, settings);
    }
}

/* ---- whether a folder has the run that is asked for ---- */

/* Compared by its content, or of no weight to what comes out; precision is what the processor makes of it. */
static const char *const free_settings[] = {"data",       "val",          "tokenizer", "eval-every",
                                            "save-every", "sample-every", "precision", NULL};

static int compare_settings(const cJSON *asked, const RunState *state, const char *dir, Err *err) {
    const cJSON *x;
    cJSON_ArrayForEach(x, asked) {
        const cJSON *y = json_field(state->settings, x->string);
        if (text_is_in(x->string, free_settings) || !y || cJSON_Compare(x, y, true)) continue;
        return err_set(err, "%s was trained with --%s %s, this sweep has %s: another --out keeps both", dir, x->string,
                       show_json(y).text, show_json(x).text);
    }
    return 0;
}

/* What a run adopts from its tokenizer and its settings is not the preset's to say. */
static int compare_config(const Config *asked, const RunState *state, const char *dir, Err *err) {
    const Config *had = &state->config;
    Config c = *asked;
    c.vocab_size = had->vocab_size;
    c.bos_token_id = had->bos_token_id;
    c.eos_token_id = had->eos_token_id;
    c.mask_token_id = had->mask_token_id;
    c.dropout = had->dropout;
    memcpy(c.torch_dtype, had->torch_dtype, sizeof c.torch_dtype);
    char *a = config_json_print(&c, NULL), *b = config_json_print(had, NULL);
    int rc = strcmp(a, b)
                 ? err_set(err, "%s has another config.json than its --config now: another --out keeps both", dir)
                 : 0;
    free(a);
    free(b);
    return rc;
}

static int check_folder(const SweepRun *r, const Config *config, const cJSON *asked, const char *texts_hash, Err *err) {
    RunState state;
    char path[PATH_BYTES];
    if (path_join(path, r->dir, RUN_STATE, err)) return -1;
    if (access(path, F_OK) < 0) return 0;
    if (run_state_load(&state, r->dir, err)) return -1;
    int rc = compare_settings(asked, &state, r->dir, err) || compare_config(config, &state, r->dir, err) ? -1 : 0;
    if (rc == 0 && *texts_hash && strcmp(texts_hash, state.data_hash))
        rc = err_set(err,
                     "%s was trained on other texts (sha256 %s, --data and --val have %s): another --out keeps both",
                     r->dir, state.data_hash, texts_hash);
    run_state_free(&state);
    return rc;
}

/* ---- one run ---- */

/* Seconds, from the size of the network; the memory of all of them would not be there. */
static int guess(SweepRun *r, const Config *c, const Settings *s, Err *err) {
    static double rate;
    static int width;
    Model m;
    if (model_init(&m, c, err)) return -1;
    if (width != c->hidden_size) rate = cost_rate(width = c->hidden_size);
    double window = s->window >= 2 ? (double)s->window : c->max_positions;
    r->guess = cost_seconds(&m, rate) * (double)(s->steps * s->batch * s->accumulate) * window;
    model_free(&m);
    return 0;
}

/* The words as `pretrain` reads them, its rules between them, and what they say against the folder. */
static int check(SweepRun *r, const Command *pretrain, const CommandLine *line, const char *texts_hash, Err *err) {
    CommandLine own = {.program = line->program};
    Settings s;
    Config c;
    int rc = command_line_read(&own, pretrain, &s, r->n_words, r->words, err);
    if (rc == 0) rc = settings_finish(&s, err);
    if (rc == 0) rc = preset_or_file(&c, NULL, s.config, err);
    if (rc == 0) rc = guess(r, &c, &s, err);
    if (rc == 0) {
        cJSON *asked = settings_save(pretrain, &s);
        rc = check_folder(r, &c, asked, texts_hash, err);
        cJSON_Delete(asked);
    }
    command_line_free(&own);
    sweep_look(r);
    return rc;
}

/* What is wrong with a folder `pretrain` says when it is its turn. */
void sweep_look(SweepRun *r) {
    PastRun past;
    r->done = r->spent = 0;
    if (past_run_load(&past, r->dir, NULL)) return;
    r->done = (double)past.done / (double)past.steps;
    r->spent = past.n ? past.seconds[past.n - 1] : 0;
    past_run_free(&past);
}

/* ---- all ---- */

/* A preset's name; of a file what stands in front of .json. */
static int name_run(SweepRun *r, const char *out, const char *config, const char *rate, const char *seed, Err *err) {
    char name[PATH_BYTES];
    const char *slash = strrchr(config, '/'), *from = slash ? slash + 1 : config;
    int n = (int)strlen(from);
    if (text_ends(from, ".json")) n -= (int)strlen(".json");
    if ((size_t)snprintf(name, sizeof name, "%.*s-lr%s-seed%s", n, from, rate, seed) >= sizeof name)
        return err_set(err, "--config %.100s...: the name is too long", config);
    return path_join(r->dir, out, name, err);
}

static int check_names(const Sweep *s, Err *err) {
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(s->runs[i].dir, s->runs[k].dir))
                return err_set(err, "--config or --lr has two whose runs would be %s", s->runs[i].dir);
    return 0;
}

/* Of the texts that all runs read; "" where they are folders, whose hash `pretrain` compares when it goes on. */
static int hash_texts(const Settings *s, char hex[65], Err *err) {
    Texts texts;
    char dir[PATH_BYTES];
    *hex = 0;
    for (int i = 0; i < s->data.n; i++)
        if (corpus_item(s->data.items[i], dir) || corpus_is(dir)) return 0;
    if (texts_load(&texts, s->data.items, s->data.n, s->val, err)) return -1;
    memcpy(hex, texts.hash, 65);
    texts_free(&texts);
    return 0;
}

static int add_run(Sweep *s, const CommandLine *line, const Settings *settings, const char *config, const char *rate,
                   int64_t seed, Err *err) {
    SweepRun *r = &s->runs[s->n++];
    const Option *lr = pretrain_option("lr");
    Settings parsed;
    char rate_text[OPTION_TEXT_BYTES], seed_text[24];
    if (option_set(lr, &parsed, rate, err)) return -1;
    option_text(lr, &parsed, rate_text);
    snprintf(seed_text, sizeof seed_text, "%lld", (long long)seed);
    if (name_run(r, settings->out, config, rate_text, seed_text, err)) return -1;
    tell(r, line, settings, config, rate_text, seed_text);
    return 0;
}

int sweep_make(Sweep *s, const Command *pretrain, const CommandLine *line, const Settings *settings,
               const OptionList *configs, const OptionList *rates, int64_t seeds, Err *err) {
    char hash[65];
    *s = (Sweep){.runs = xcalloc((size_t)configs->n * (size_t)rates->n * (size_t)seeds, sizeof *s->runs)};
    int rc = hash_texts(settings, hash, err);
    for (int64_t seed = 1; seed <= seeds; seed++)
        for (int c = 0; c < configs->n; c++)
            for (int k = 0; k < rates->n; k++)
                if (rc == 0) rc = add_run(s, line, settings, configs->items[c], rates->items[k], seed, err);
    if (rc == 0) rc = check_names(s, err);
    for (int i = 0; i < s->n && rc == 0; i++) rc = check(&s->runs[i], pretrain, line, hash, err);
    if (rc) sweep_free(s);
    return rc;
}

void sweep_free(Sweep *s) {
    for (SweepRun *r = s->runs; r < s->runs + s->n; r++) {
        for (int i = 0; i < r->n_words; i++) free(r->words[i]);
        free(r->words);
    }
    free(s->runs);
    *s = (Sweep){0};
}

int sweep_done(const Sweep *s) {
    int n = 0;
    for (int i = 0; i < s->n; i++) n += s->runs[i].done == 1;
    return n;
}

double sweep_seconds_left(const Sweep *s) {
    double guessed = 0, spent = 0, left = 0;
    for (const SweepRun *r = s->runs; r < s->runs + s->n; r++) {
        left += r->guess * (1 - r->done);
        if (r->done < 1 || !(r->spent > 0)) continue;
        guessed += r->guess;
        spent += r->spent;
    }
    return spent > 0 ? left * spent / guessed : left;
}
