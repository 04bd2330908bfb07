/* faults: programs of ours under fault.so. A trial is a fresh folder with what a command needs; the command runs in it
 * with one fault, and afterwards without. */
#ifndef NOISED_TEST_FAULTS_H
#define NOISED_TEST_FAULTS_H

#include "tests/faults/fault.h"
#include "tests/support/test.h"

extern const char *const fault_calls[FAULT_CALLS]; /* their names */
extern const char *const fault_modes[FAULT_MODES];

/* What the file named FAULT is to say: from now on calls are counted from 0, and this one fails. */
void fault_set(Fault *f, FaultCall call, FaultMode mode, long nth);
void fault_rest(Fault *f); /* none fails */
/* Such a file in dir, mapped; the caller unmaps it. */
Fault *fault_file(const char *dir);

/* Programs that are started from now on live under fault.so and do what the file in dir says; NULL: no longer. */
void fault_over_programs(const char *dir);

/* Whether such a call can fail in this way. */
bool fault_has_mode(FaultCall call, FaultMode mode);

/* "WHAT, malloc 3 once" */
void fault_describe(char text[100], const char *what, FaultCall call, FaultMode mode, long nth);

/* Of `count` calls the one after `n` that is tried: all of them with FAULTS=all (make faults), else some. */
long fault_next(long n, long count);

#endif
