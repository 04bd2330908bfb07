/* option: one row of a table of options, and its value in a struct. */
#ifndef NOISED_BASE_OPTION_H
#define NOISED_BASE_OPTION_H

#include "base/err.h"

enum { OPTION_TEXT_BYTES = 1024, OPTION_OFFER = 32 };

typedef enum OptionKind {
    OPTION_TEXT,     /* const char *, not empty, of `high` bytes at most (0: shorter than OPTION_TEXT_BYTES, which alone
                        can be printed), one of the choices if there are any; borrowed from argv */
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
    bool may_be_empty;  /* OPTION_TEXT alone */
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

/* One value as text: the first reads it, the second prints what the first would read. None is NULL to the first and ""
 * to the second. A list gets one item more, and cannot be printed. */
int option_set(const Option *o, void *values, const char *text, Err *err);
void option_text(const Option *o, const void *values, char out[OPTION_TEXT_BYTES]);

#endif
