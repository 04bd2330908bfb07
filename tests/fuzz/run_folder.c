/* What a run's folder says of it: trainer_state.json 0xFF log.jsonl. What is read is a network that there is and
 * settings within their ranges, and saved again it says the same; what plots and comparisons make of it, they make. */
#include "base/memory.h"
#include "model/config_check.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/report/past_run.h"
#include "trainer/report/plot.h"
#include "trainer/run_folder.h"
#include "trainer/run_state.h"
#include "trainer/runlog.h"
#include "trainer/settings.h"
#include "weights/config_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Command command = {.size = sizeof(Settings), .options = settings_options, .n_options = SETTINGS_N};

static void check_settings(const cJSON *saved) {
    Settings settings;
    CommandLine line;
    Err err = {""};
    char *words[] = {"--out", "runs/x", "--data", "x.txt"};
    CHECK_MSG(command_line_read(&line, &command, &settings, COUNTOF(words), words, &err) == 0, "%s", err.msg);
    if (settings_restore(&line, saved, NULL, &err) == 0) {
        CHECK(settings.steps >= 0 && settings.batch >= 1 && settings.accumulate >= 1 &&
              settings.recipe.weight_decay >= 0);
        settings_finish(&settings, &err);
    }
    command_line_free(&line);
}

static void check_state(const RunState *s, bool write) {
    RunState again;
    Err err = {""};
    CHECK_MSG(config_check(&s->config, &err) == 0, "%s", err.msg);
    check_settings(s->settings);
    if (!write || s->config.n_labels) return; /* pretrain knows no classes */
    CHECK_MSG(run_state_save(s, fuzz_folder(), 3, &err) == 0, "%s", err.msg);
    CHECK_MSG(run_state_load(&again, fuzz_folder(), &err) == 0, "%s", err.msg);
    char *a = config_json_print(&s->config, NULL), *b = config_json_print(&again.config, NULL);
    CHECK(!strcmp(a, b) && !strcmp(s->data_hash, again.data_hash) && cJSON_Compare(s->settings, again.settings, true));
    free(a);
    free(b);
    run_state_free(&again);
}

static void check_past(void) {
    PastRun r;
    Err err = {""};
    if (past_run_load(&r, fuzz_folder(), &err)) {
        CHECK(err.msg[0]);
        return;
    }
    CHECK(r.steps >= 1 && r.seed >= 0 && r.lr > 0 && r.network && past_run_alike(&r) <= r.n);
    for (int i = 0; i < r.n; i++) CHECK(isfinite(r.loss[i]));
    past_run_finished(&r);
    past_run_free(&r);
}

/* No picture has a place that is no number. */
static void check_plot(void) {
    static const char *const bad[] = {"\"nan", " nan", ",nan", "-nan", ">nan", "\"inf", " inf", ",inf", "-inf", ">inf"};
    Err err = {""};
    const char *path = fuzz_file("plot.svg", "", 0);
    if (plot_run(fuzz_folder(), path, &err)) {
        CHECK(err.msg[0]);
        return;
    }
    char *svg = test_read_file(path, NULL);
    for (size_t i = 0; i < COUNTOF(bad); i++) CHECK_MSG(!strstr(svg, bad[i]), "%s in %s", bad[i], svg);
    free(svg);
}

/* To be continued from step 2: lines of later ones go. */
static void check_log(void) {
    RunLog log;
    Err err = {""};
    CHECK_MSG(runlog_open(&log, fuzz_folder(), 2, &err) == 0, "%s", err.msg);
    runlog_close(&log, NULL);
    CHECK_MSG(runlog_open(&log, fuzz_folder(), 2, &err) == 0, "%s", err.msg);
    runlog_close(&log, NULL);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    RunState s;
    Err err = {""};
    size_t n_state, n_log;
    char *state = fuzz_until(&in, 0xFF, &n_state), *log = fuzz_rest(&in, &n_log);
    fuzz_file(RUN_STATE, state, n_state);
    fuzz_file("log.jsonl", log, n_log);
    fuzz_file("tokenizer.json", "{}", 2);
    check_past();
    if (n_log % 8 == 1) check_plot(); /* waits for the disk */
    check_log();
    if (run_state_load(&s, fuzz_folder(), &err) == 0) {
        check_state(&s, n_log % 8 == 1);
        run_state_free(&s);
    } else {
        CHECK(err.msg[0]);
    }
    free(state);
    free(log);
}

TEST(fuzz_run_folder) { fuzz_run("run_folder", look); }
