/* trial: a command of ours in a fresh folder, under fault.so or not, and what came of it. */
#ifndef NOISED_TEST_TRIAL_H
#define NOISED_TEST_TRIAL_H

#include "base/sha256.h"
#include "tests/faults/faults.h"

/* Commands are a shell's, in a folder with text.txt, labels.jsonl, requests.jsonl, config.json and model/. A result is
 * a file, or a folder whose files all count but log.jsonl, which has times in it; "": what the command prints. */
typedef struct Task {
    const char *name, *before, *command, *result;
    bool mallocs; /* few enough to let each of them fail */
} Task;

enum { TASKS = 10 };
extern const Task tasks[TASKS];

typedef struct Trial {
    const Task *task;
    const char *dir;
    Fault *fault;
    char build[200], under[700]; /* where programs are, and the same under fault.so */
    char result[SHA256_HEX];     /* of the undisturbed run */
    long count[FAULT_CALLS];     /* that it makes */
} Trial;

/* Runs it undisturbed. */
Trial trial_open(const Task *task);
void trial_close(Trial *t);

void trial_begin(const Trial *t); /* that folder anew */
/* Status of a shell's line in the folder, with the programs in `before`; what it says is trial_output's, malloc'ed. */
int trial_shell(const Trial *t, const char *before, const char *line);
char *trial_output(const Trial *t);

/* That the result is the undisturbed one, and nothing temporary is left. */
void trial_check(const Trial *t, const char *when, const char *said);
/* The work can be done although the command failed afterwards, in telling of it. */
bool trial_is_done(const Trial *t);
/* The same command typed again, without a fault: it ends in the same bytes. */
void trial_again(const Trial *t, const char *when);

#endif
