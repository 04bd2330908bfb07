/* flags: the command line, declared once as a table that is parsed, printed as help and remembered for --resume.
 *
 * A flag is "--name VALUE" or "--name=VALUE"; a switch has no value; FLAG_FILES takes every word up to the next flag.
 * An unknown flag, a missing or impossible value, a value out of range and a flag given twice are errors that name the
 * flag and the value. Values point into argv or into a FlagSet's own copies, so both must outlive their use. */
#ifndef NOISED_FLAGS_H
#define NOISED_FLAGS_H

#include "base/err.h"

#include <cjson/cJSON.h>

typedef struct FileList {
    const char **paths; /* malloc'ed array of borrowed strings */
    int n;
} FileList;

typedef enum FlagKind {
    FLAG_TEXT,    /* const char * */
    FLAG_FILES,   /* FileList */
    FLAG_INTEGER, /* int64_t in low..high */
    FLAG_REAL,    /* double in low..high */
    FLAG_PAIR,    /* double[2], "X,Y", each in low..high */
    FLAG_CHOICE,  /* int, index into choices */
    FLAG_SWITCH,  /* bool, set when given */
} FlagKind;

/* What --resume does with the flag: nothing; takes the saved value unless another is given; insists on the saved one.
 */
typedef enum FlagMemory { FLAG_FORGET, FLAG_REMEMBER, FLAG_FIXED } FlagMemory;

typedef struct Flag {
    const char *name; /* without the dashes */
    FlagKind kind;
    void *value; /* holds the default until the flag is given; an integer below low or a NaN there means "none" */
    FlagMemory memory;
    double low, high;
    const char *const *choices; /* NULL-terminated */
    const char *hint, *help;    /* "X", "peak learning rate" */
    bool given;
} Flag;

/* 0, 1 when --help was among the words, -1 on error. */
int flags_parse(Flag *flags, int n, int argc, char **argv, Err *err);
void flags_print_help(const Flag *flags, int n, const char *usage);
bool flags_given(const Flag *flags, int n, const char *name);
int flags_require(const Flag *flags, int n, const char *name, Err *err); /* -1 unless given */
void flags_free(Flag *flags, int n);

/* {"lr":"0.001", "data":["a.txt"], ...}: every flag whose memory is not FLAG_FORGET, as text that parses to it. */
cJSON *flags_save(const Flag *flags, int n);

/* The other way: flags not given take their saved value; a FLAG_FIXED flag given with another value is an error naming
 * both, except the one called `free_flag` (may be NULL). `saved` must outlive the flags. */
int flags_restore(Flag *flags, int n, const cJSON *saved, const char *free_flag, Err *err);

#endif
