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

#include "base/err.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { OPTIONS_MOST = 48, OPTION_TEXT_BYTES = 1024, OPTION_OFFER = 32 };

typedef enum OptionKind {
    OPTION_TEXT,     /* const char *, not empty, shorter than OPTION_TEXT_BYTES, one of the choices if there are any;
                        borrowed from argv */
    OPTION_LIST,     /* OptionList: takes all words up to the next option, and may be given again */
    OPTION_INT,      /* int in low..high */
    OPTION_INT64,    /* int64_t in low..high */
    OPTION_REAL,     /* double in low..high */
    OPTION_PAIR,     /* double[2], "X,Y", each in low..high */
    OPTION_CHOICE,   /* int, index into choices */
    OPTION_SWITCH,   /* bool, set when given */
    OPTION_OPERAND,  /* const char *, a word without dashes; all operands are required, in the table's order */
    OPTION_OPERANDS, /* OptionList: all words without dashes that are left; one at least, unless `absent` says what none
                        means */
} OptionKind;

typedef struct OptionList {
    const char **items; /* malloc'ed array of borrowed strings */
    int n;
} OptionList;

typedef struct Option {
    const char *name; /* without the dashes; of an operand what the help calls it */
    OptionKind kind;
    size_t offset;       /* of the value in the command's struct */
    const char *metavar; /* "DIR"; NULL for switches and operands */
    double low, high;
    const char *fallback; /* the default, as a user would type it; NULL: none (NULL, NaN, an integer of low - 1) */
    const char *unit;     /* "seconds"; NULL: none */
    const char *help;
    const char *const *choices;                   /* NULL-terminated */
    bool (*offer)(int i, char out[OPTION_OFFER]); /* writes word i = 0, 1, ... that completion offers besides files;
                                                     false behind the last; NULL: none */
    const char *absent; /* what the help calls the default when there is no fallback: "a tenth of --lr" */
    bool required;
    const char *unless; /* the option that makes it unnecessary when given; NULL: always required */
    int tag;            /* the program's own */
} Option;

static inline bool option_is_operand(const Option *o) {
    return o->kind == OPTION_OPERAND || o->kind == OPTION_OPERANDS;
}
static inline bool option_is_number(const Option *o) {
    return o->kind == OPTION_INT || o->kind == OPTION_INT64 || o->kind == OPTION_REAL || o->kind == OPTION_PAIR;
}
static inline bool option_is_list(const Option *o) { return o->kind == OPTION_LIST || o->kind == OPTION_OPERANDS; }

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

/* Prints "program: command: message", for EXIT_USAGE with a pointer to the help, and returns status. */
int command_fail(const CommandLine *line, const Err *err, int status);

/* One value as text: the first reads it, the second prints what the first would read. None is NULL to the first and ""
 * to the second. A list gets one item more, and cannot be printed. */
int option_set(const Option *o, void *values, const char *text, Err *err);
void option_text(const Option *o, const void *values, char out[OPTION_TEXT_BYTES]);

/* `program --help=man` prints the first, roff; `program --help=completion-SHELL` the second, a script for bash, zsh or
 * fish, and false of any other shell. */
void program_print_man(const Program *p, FILE *f);
bool program_print_completion(const Program *p, const char *shell, FILE *f);

/* For --help: NULL command is the list of commands. */
void command_print_usage(const Program *p, const Command *c, FILE *f);
void command_print_help(const Program *p, const Command *c, FILE *f);

#endif
