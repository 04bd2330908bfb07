/* study: a script that trains, measures and writes documents, at its smallest, in a folder of a test's own. */
#ifndef NOISED_TEST_STUDY_H
#define NOISED_TEST_STUDY_H

/* Runs a shell's command; what it says is malloc'ed. */
char *study_run(const char *dir, const char *command, int *status);

/* Runs it twice. What is there is not done again, so that `work` is said the first time alone, and dir/docs has the
 * same documents: their texts, malloc'ed, NULL after a failure. */
void study_run_twice(const char *dir, const char *command, const char *work, int n, const char *const documents[],
                     char *texts[]);

#endif
