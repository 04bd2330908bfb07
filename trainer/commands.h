/* commands: what `noised-train COMMAND` runs. argv holds the words behind the command. Results go to standard output;
 * the return value is the exit status: 0 done, 1 failed, 2 wrong usage, 128 + n stopped by signal n (the run is saved).
 * Messages about failures go to standard error, one line that names the command. */
#ifndef NOISED_COMMANDS_H
#define NOISED_COMMANDS_H

#include "base/err.h"
#include "trainer/flags.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int command_tokenizer(int argc, char **argv);
int command_pretrain(int argc, char **argv);
int command_eval(int argc, char **argv);

/* Prints "noised-train: COMMAND: message" with control characters replaced, and returns status. */
int command_fail(const char *command, const Err *err, int status);

#endif
