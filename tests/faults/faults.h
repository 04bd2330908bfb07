/* faults: programs of ours under fault.so.
 *
 *     trial               a command in a fresh folder, with a fault and then without
 *     house               the daemon, which is told of one fault after the other
 *     record, power       what a command writes, and what is left of it when the power goes
 *
 * A call that shall fail is a FaultCall, its functions in fault.c, its name in fault_calls and its modes in
 * fault_has_mode; a command a Task in trial.c with a TEST in test_fault_programs.c, and one in test_fault_power.c if it
 * writes (WRITE_ORDER=1 writes its order); what is asked of the daemon a Question in test_fault_requests.c. */
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

bool faults_all(void); /* make faults: all there are */
/* Of `count` calls the one after `n` that is tried: all of them, or some. */
long fault_next(long n, long count);

#endif
