/* The power goes at every moment of what a command writes: the same command typed again ends in the bytes of a run that
 * nothing happened to, with nothing missing in its log, and a run that could be served still can be. */
#include "base/buffer.h"
#include "tests/faults/power.h"
#include "tests/faults/trial.h"
#include "tests/support/checkpoints.h"

#include <stdlib.h>
#include <string.h>

static int count_lines(const Trial *t) {
    char *text = test_read_file(test_text("%s/trial/run/log.jsonl", t->dir), NULL);
    int n = text ? (int)strlen(text) : 0, lines = 0;
    for (int i = 0; i < n; i++) lines += text[i] == '\n';
    free(text);
    return lines;
}

static void check_served(const Trial *t, const char *when) {
    Checkpoint c;
    Err err;
    int rc = checkpoint_open(&c, test_text("%s/trial/run", t->dir), &err);
    CHECK_MSG(rc == 0, "%s, %s: %s", t->task->name, when, err.msg);
    if (rc == 0) checkpoint_close(&c);
}

static void try_state(const Trial *t, const Power *p, int i, int lines) {
    char path[300], when[200];
    snprintf(path, sizeof path, "%s/trial", t->dir);
    test_remove(path);
    power_write(p, i, path, when);
    if (strcmp(t->task->before, "true") != 0) check_served(t, when);
    trial_again(t, when);
    CHECK_MSG(count_lines(t) == lines, "%s, %s: %d lines in its log, not %d", t->task->name, when, count_lines(t),
              lines);
}

/* The order of what is written, against what it was when somebody last looked at it. */
static void check_order(const Trial *t, const Power *p) {
    char *order = power_order(p);
    const char *path = test_text("tests/faults/order/%s", t->task->name);
    char *wanted = test_read_file(path, NULL);
    CHECK_MSG(wanted && !strcmp(wanted, order), "%s is not\n%s", path, order);
    if (getenv("WRITE_ORDER")) test_write_file(path, order, strlen(order));
    free(wanted);
    free(order);
}

static void try_power(const Task *task) {
    enum { TRIED = 40 };
    char more[1200], record[300], before[300];
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    test_takes_long();
    Trial t = trial_open(task);
    snprintf(record, sizeof record, "%s/record", t.dir);
    snprintf(before, sizeof before, "%s/before", t.dir);
    test_write_file(record, "", 0);
    snprintf(more, sizeof more, "FAULT_RECORD=%s %s", record, t.under);
    trial_begin(&t);
    CHECK(trial_shell(&t, more, task->command) == 0);
    int lines = count_lines(&t);
    Power *p = power_open(record, before, faults_all() ? 4096 : 48);
    int n = power_states(p), stride = faults_all() ? 1 : n / TRIED + 1, tried = 0;
    check_order(&t, p);
    for (int i = 0; i < n && test_failures() < 5; i += stride, tried++) try_state(&t, p, i, lines);
    printf("  %s: %d of %d states\n", task->name, tried, n);
    power_close(p);
    trial_close(&t);
}

TEST(faults_power_start) { try_power(&tasks[0]); }
TEST(faults_power_resume) { try_power(&tasks[1]); }
TEST(faults_power_finetune) { try_power(&tasks[2]); }
TEST(faults_power_tokenizer) { try_power(&tasks[3]); }
TEST(faults_power_quantize) { try_power(&tasks[4]); }
TEST(faults_power_import) { try_power(&tasks[5]); }
