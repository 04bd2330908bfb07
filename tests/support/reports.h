/* reports: what a sanitizer says fails the test that runs, whichever process says it and however that ends: also in a
 * daemon that is killed, or whose exit status and stderr nobody reads. Builds without a sanitizer do nothing here. */
#ifndef NOISED_TEST_REPORTS_H
#define NOISED_TEST_REPORTS_H

#include <stdbool.h>
#include <stdio.h>

/* From now on reports of this process and of those it starts go to files in a folder of this run. */
void reports_collect(void);
/* Until now: what this process leaks is found when it ends. */
void reports_to_stderr(void);

/* Takes one report away: all of it is printed to f, its summary written to `summary`. False: there is none. */
bool reports_take(FILE *f, char summary[static 256]);

#endif
