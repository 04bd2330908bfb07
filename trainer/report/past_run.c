#include "trainer/report/past_run.h"

#include "base/json/json_reader.h"
#include "base/memory.h"
#include "trainer/run_folder.h"
#include "trainer/runlog.h"
#include "trainer/run_state.h"
#include "weights/config_json.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENIZER_MAX = 1 << 29 };

/* Of the settings those that a comparison varies, those that change no weight, and files, whose content is compared. */
static const char *const apart[] = {"seed",         "lr",         "min-lr", "eval-every", "save-every",
                                    "sample-every", "vocab-size", "data",   "val",        "tokenizer"};

/* ---- what was trained ---- */

static double setting(const RunState *s, const char *name) {
    const cJSON *value = json_field(s->settings, name);
    return cJSON_IsString(value) && *value->valuestring ? strtod(value->valuestring, NULL) : NAN;
}

/* Of that size an int64_t holds it, and a double every one of them. */
static bool is_whole(double x, double least) { return x >= least && x <= (double)JSON_INTEGER_MAX && x == floor(x); }

static char *print_network(const RunState *s) {
    char *config = config_json_print(&s->config, NULL);
    cJSON *all = cJSON_CreateObject(), *settings = cJSON_Duplicate(s->settings, true);
    for (size_t i = 0; i < COUNTOF(apart); i++) cJSON_DeleteItemFromObjectCaseSensitive(settings, apart[i]);
    cJSON_AddItemToObject(all, "config", cJSON_Parse(config));
    cJSON_AddItemToObject(all, "settings", settings);
    char *text = cJSON_PrintUnformatted(all);
    BUG_ON(!text);
    cJSON_Delete(all);
    free(config);
    return text;
}

static int read_state(PastRun *r, double *tokens_per_step, Err *err) {
    RunState s;
    char path[PATH_BYTES];
    if (run_state_load(&s, r->dir, err)) return -1;
    double window = setting(&s, "window"), steps = setting(&s, "steps"), seed = setting(&s, "seed");
    *tokens_per_step =
        setting(&s, "batch") * setting(&s, "accumulate") * (isnan(window) ? s.config.max_positions : window);
    r->lr = setting(&s, "lr");
    r->min_lr = setting(&s, "min-lr");
    bool known = is_whole(steps, 1) && is_whole(seed, 0) && r->lr > 0;
    r->steps = known ? (int64_t)steps : 0;
    r->seed = known ? (int64_t)seed : 0;
    memcpy(r->texts, s.data_hash, sizeof r->texts);
    r->network = print_network(&s);
    run_state_free(&s);
    if (!known) return err_set(err, "%s/" RUN_STATE ": the settings have no steps, seed or lr", r->dir);
    return path_join(path, r->dir, "tokenizer.json", err) || sha256_file(path, TOKENIZER_MAX, r->tokenizer, err) ? -1
                                                                                                                 : 0;
}

/* ---- evaluations ---- */

typedef struct Reading {
    PastRun *run;
    double tokens_per_step, seconds;
} Reading;

static int read_line(void *context, const RunLogLine *line, Err *err) {
    Reading *reading = context;
    PastRun *r = reading->run;
    (void)err;
    if (line->i == 0) {
        size_t most = (size_t)line->most;
        r->step = xcalloc(4 * most, sizeof *r->step);
        r->seconds = r->step + most;
        r->loss = r->seconds + most;
        r->tokens = r->loss + most;
    }
    double speed = runlog_number(line, "tokens_per_second"), loss = runlog_number(line, "val_loss");
    reading->seconds += speed > 0 ? reading->tokens_per_step / speed : NAN;
    if (!json_field(line->fields, "unfinished")) r->done = (int64_t)line->step;
    if (!isfinite(loss)) return 0;
    double tokens = runlog_number(line, "val_tokens");
    while (r->n && r->tokens[r->n - 1] > tokens) r->n--; /* the last one of a run that was made longer */
    r->step[r->n] = line->step;
    r->seconds[r->n] = reading->seconds;
    r->loss[r->n] = loss;
    r->tokens[r->n++] = tokens;
    return 0;
}

int past_run_load(PastRun *r, const char *dir, Err *err) {
    *r = (PastRun){0};
    Reading reading = {.run = r};
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    if (read_state(r, &reading.tokens_per_step, err) == 0 && runlog_read(dir, read_line, &reading, err) == 0) return 0;
    past_run_free(r);
    return -1;
}

void past_run_free(PastRun *r) {
    free(r->network);
    free(r->step);
    *r = (PastRun){0};
}

bool past_run_finished(const PastRun *r) {
    return r->n > 0 && r->done == r->steps && r->step[r->n - 1] == (double)r->steps;
}

int past_run_alike(const PastRun *r) {
    int n = 0;
    while (n < r->n && r->tokens[n] == r->tokens[0]) n++;
    return n;
}

/* ---- where they lie ---- */

static bool holds_run(const char *dir) {
    char path[PATH_BYTES];
    return path_join(path, dir, RUN_STATE, NULL) == 0 && access(path, F_OK) == 0;
}

static void add_dir(char ***dirs, int *n, const char *dir) {
    *dirs = xrealloc(*dirs, (size_t)(*n + 1) * sizeof **dirs);
    (*dirs)[(*n)++] = xstrdup(dir);
}

int past_runs_find(const char *dir, char ***dirs, int *n, Err *err) {
    struct dirent **entries;
    int before = *n;
    if (holds_run(dir)) return add_dir(dirs, n, dir), 0;
    int found = scandir(dir, &entries, NULL, alphasort);
    if (found < 0) return err_set(err, "%s: %s", dir, strerror(errno));
    for (int i = 0; i < found; i++) {
        char path[PATH_BYTES];
        if (entries[i]->d_name[0] != '.' && path_join(path, dir, entries[i]->d_name, NULL) == 0 && holds_run(path))
            add_dir(dirs, n, path);
        free(entries[i]);
    }
    free(entries);
    return *n > before ? 0 : err_set(err, "%s holds no run: neither it nor a folder in it has a " RUN_STATE, dir);
}
