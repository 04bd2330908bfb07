/* Whatever call of the system fails, and whenever: the trainer and the tool end with a reason or do their work, and the
 * same command typed again ends in the bytes of a run that nothing happened to. */
#include "tests/faults/trial.h"

#include <stdlib.h>

/* With this one fault: an end with a reason, or the work done; then the same command without. */
static void try_fault(const Trial *t, FaultCall call, FaultMode mode, long nth) {
    const char *when = test_text("%s %ld %s", fault_calls[call], nth, fault_modes[mode]);
    trial_begin(t);
    fault_set(t->fault, call, mode, nth);
    int status = trial_shell(t, t->under, t->task->command);
    fault_rest(t->fault);
    char *said = trial_output(t);
    CHECK_MSG(status == 0 || status == 1, "%s, %s: status %d\n%s", t->task->name, when, status, said);
    CHECK_MSG(status == 0 || *said || call == FAULT_WRITE || call == FAULT_FLUSH, "%s, %s: status %d without a word",
              t->task->name, when, status);
    if (status == 0 && *t->task->result) trial_check(t, when, said);
    free(said);
    if (status) trial_again(t, when);
}

static void try_task(const Task *task) {
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    test_takes_long();
    Trial t = trial_open(task);
    int trials = 0;
    for (FaultCall call = task->mallocs ? FAULT_MALLOC : FAULT_OPEN; call < FAULT_CALLS; call++)
        for (FaultMode mode = FAULT_ONCE; mode < FAULT_MODES; mode++) {
            if (!fault_has_mode(call, mode)) continue;
            for (long n = 1; n <= t.count[call]; n = fault_next(n, t.count[call]), trials++)
                try_fault(&t, call, mode, n);
        }
    printf("  %s: %d trials\n", task->name, trials);
    trial_close(&t);
}

TEST(faults_under_start) { try_task(&tasks[0]); }
TEST(faults_under_resume) { try_task(&tasks[1]); }
TEST(faults_under_finetune) { try_task(&tasks[2]); }
TEST(faults_under_tokenizer) { try_task(&tasks[3]); }
TEST(faults_under_quantize) { try_task(&tasks[4]); }
TEST(faults_under_import) { try_task(&tasks[5]); }
TEST(faults_under_verify) { try_task(&tasks[6]); }
TEST(faults_under_eval) { try_task(&tasks[7]); }
TEST(faults_under_sample) { try_task(&tasks[8]); }
TEST(faults_under_batch) { try_task(&tasks[9]); }
