/* options: the command line of a program, from tables. A Program has one Command without a name, or several with names;
 * a Command is a struct of values and a table that says which option fills which member. Parsing, ranges, defaults,
 * --help, the manual page and the shells' completion all come from the tables, so none of them can drift.
 *
 *     program [command] [--flag value | --flag=value | --switch | operand]...
 *
 * Everywhere: -h and --help print the help, --version the version, `--` ends the options. An option may be given once
 * unless it is a list. Messages go to standard error, one line that names the program and the command. */
#ifndef NOISED_BASE_OPTIONS_H
#define NOISED_BASE_OPTIONS_H

#include "base/options/option.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { OPTIONS_MOST = 64 };

typedef struct Program Program;
typedef struct CommandLine CommandLine;

typedef struct Command {
    const char *name;    /* NULL: the program itself */
    const char *summary; /* "Serves one checkpoint over HTTP." */
    const char *details; /* more for the help and the manual; may be NULL */
    size_t size;         /* of the struct of values */
    const Option *options;
    int n_options;
    int (*run)(const CommandLine *line); /* returns the exit status */
} Command;

struct Program {
    const char *name, *summary;
    const Command *const *commands; /* NULL-terminated */
    const char *statuses;           /* exit statuses beyond 0, 1 and 2: a sentence; may be NULL */
    int (*start)(Err *err);         /* before a command runs, not for its help; may be NULL */
    /* How a failure is told, of the program and its command `who`; NULL: "who: message" on standard error. */
    void (*tell)(const char *who, const char *message, int status);
};

/* What a user has typed. */
struct CommandLine {
    const Program *program; /* NULL in tests */
    const Command *command;
    void *values;             /* command->size bytes */
    bool given[OPTIONS_MOST]; /* by index in the table */
};

/* The whole of main: finds the command, fills its struct with defaults and what the words say, runs it. */
int program_main(const Program *p, int argc, char **argv);

/* Its middle part; argv[0..argc) are the words behind the command. On failure too the line must be freed. */
int command_line_read(CommandLine *line, const Command *c, void *values, int argc, char **argv, Err *err);
void command_line_free(CommandLine *line);
bool command_line_given(const CommandLine *line, const char *name);

/* Tells "program: command: message", for EXIT_USAGE with a pointer to the help, and returns status. */
int command_fail(const CommandLine *line, const Err *err, int status);

/* `program --help=man` prints the first, roff; `program --help=completion-SHELL` the second, a script for bash, zsh or
 * fish, and false of any other shell. */
void program_print_man(const Program *p, FILE *f);
bool program_print_completion(const Program *p, const char *shell, FILE *f);

/* For --help: NULL command is the list of commands. */
void command_print_usage(const Program *p, const Command *c, FILE *f);
void command_print_help(const Program *p, const Command *c, FILE *f);

#endif
