#include "base/err.h"
#include "base/memory.h"
#include "base/options/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 30 };

/* ---- help ---- */

/* Words of text from `column` on, lines of at most WIDTH, each but the first indented. */
static void print_wrapped(FILE *f, const char *text, int column, int indent) {
    bool first = true;
    for (const char *word = text; *word;) {
        int n = (int)strcspn(word, " ");
        if (!first && column + 1 + n > WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', f);
            column++;
        }
        fprintf(f, "%.*s", n, word);
        column += n;
        first = false;
        word += n + (word[n] == ' ');
    }
    fputc('\n', f);
}

static void print_range(const Option *o, FILE *f) {
    bool integer = o->kind == OPTION_INT || o->kind == OPTION_INT64;
    fprintf(f, integer ? "%.0f to %.0f" : "%g to %g", o->low, o->high);
    if (o->unit) fprintf(f, " %s", o->unit);
}

/* "what it does [0 to 10 seconds; default 5]", malloc'ed. */
static char *help_text(const Option *o) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    BUG_ON(!f);
    const char *between = " [";
    fputs(o->help, f);
    if (option_is_number(o)) {
        fputs(between, f);
        print_range(o, f);
        between = "; ";
    }
    for (int i = 0; o->choices && o->choices[i]; i++) {
        fprintf(f, "%s%s", i ? ", " : between, o->choices[i]);
        between = "; ";
    }
    const char *without = o->fallback ? o->fallback : o->absent;
    if (without) {
        fprintf(f, "%sdefault%s %s", between, o->fallback ? "" : ":", without);
        between = "; ";
    }
    if (o->kind == OPTION_LIST)
        fprintf(f, "%smay be given again]", between);
    else if (*between == ';')
        fputc(']', f);
    BUG_ON(fclose(f) || !text);
    return text;
}

/* "--out DIR", "[option...]", "FROM": the parts of a command's synopsis, with one string before and behind each. */
static void print_synopsis(const Program *p, const Command *c, FILE *f) {
    fprintf(f, "%s%s%s", p->name, c->name ? " " : "", c->name ? c->name : "");
    bool optional = false;
    for (int i = 0; i < c->n_options; i++) {
        const Option *o = &c->options[i];
        if (o->required) fprintf(f, " --%s %s", o->name, o->metavar);
        optional |= !o->required && !option_is_operand(o);
    }
    if (optional) fprintf(f, " [option...]");
    for (const Option *o = c->options; o < c->options + c->n_options; o++)
        if (option_is_operand(o))
            fprintf(f, " %s%s%s%s", o->absent ? "[" : "", o->name, option_is_list(o) ? "..." : "",
                    o->absent ? "]" : "");
}

/* malloc'ed. */
static char *synopsis(const Program *p, const Command *c) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    BUG_ON(!f);
    print_synopsis(p, c, f);
    BUG_ON(fclose(f) || !text);
    return text;
}

/* As print_wrapped, but an option stays beside its value: a part has the space in front of it. */
static void print_parts(FILE *f, const char *text, int column) {
    enum { INDENT = 10 };
    for (const char *part = text, *end; *part; part = end) {
        for (end = part + 1; *end && strncmp(end, " --", 3) && strncmp(end, " [", 2);) end++;
        int n = (int)(end - part);
        if (part > text && column + n > WIDTH) {
            fprintf(f, "\n%*s", INDENT, "");
            column = INDENT;
        }
        fprintf(f, "%.*s", n, part);
        column += n;
    }
    fputc('\n', f);
}

void command_print_usage(const Program *p, const Command *c, FILE *f) {
    const char *lead = "usage: ";
    for (const Command *const *each = p->commands; *each; each++) {
        if (c && c != *each) continue;
        char *text = synopsis(p, *each);
        fputs(lead, f);
        print_parts(f, text, (int)strlen(lead));
        free(text);
        lead = "       ";
    }
    if (!c) fprintf(f, "       %s COMMAND --help\n", p->name);
}

static void print_option(FILE *f, const char *left, const char *text) {
    int n = fprintf(f, "  %s", left);
    if (n >= HELP_COLUMN) fputc('\n', f);
    fprintf(f, "%*s", n < HELP_COLUMN ? HELP_COLUMN - n : HELP_COLUMN, "");
    print_wrapped(f, text, HELP_COLUMN, HELP_COLUMN);
}

static void print_options(const Command *c, FILE *f) {
    for (int i = 0; i < c->n_options; i++) {
        const Option *o = &c->options[i];
        char left[80], *text = help_text(o);
        snprintf(left, sizeof left, "%s%s%s%s", option_is_operand(o) ? "" : "--", o->name, o->metavar ? " " : "",
                 o->metavar ? o->metavar : "");
        print_option(f, left, text);
        free(text);
    }
}

void command_print_help(const Program *p, const Command *c, FILE *f) {
    command_print_usage(p, c, f);
    fputc('\n', f);
    print_wrapped(f, c ? c->summary : p->summary, 0, 0);
    if (c && c->details) print_wrapped(f, c->details, 0, 0);
    fputc('\n', f);
    if (c)
        print_options(c, f);
    else
        for (const Command *const *each = p->commands; *each; each++) print_option(f, (*each)->name, (*each)->summary);
    print_option(f, "-h, --help", "print this");
    print_option(f, "--version", "print the version");
}

/* ---- the manual page ---- */

/* Text that roff takes as it is: dashes stay dashes, no line begins with a request. */
static void print_roff(FILE *f, const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", f);
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') fputc('\\', f);
        fputs(*text == '\\' ? "e" : (char[]){*text, 0}, f);
    }
}

static void print_roff_option(FILE *f, const Option *o) {
    char *text = help_text(o);
    fputs(".TP\n", f);
    fputs(option_is_operand(o) ? "\\fI" : "\\fB\\-\\-", f);
    print_roff(f, o->name);
    fputs("\\fR", f);
    if (o->metavar) {
        fputs(" \\fI", f);
        print_roff(f, o->metavar);
        fputs("\\fR", f);
    }
    fputc('\n', f);
    print_roff(f, text);
    fputc('\n', f);
    free(text);
}

static void print_roff_synopsis(const Program *p, const Command *c, FILE *f) {
    char *text = synopsis(p, c);
    print_roff(f, text);
    fputs("\n.br\n", f);
    free(text);
}

void program_print_man(const Program *p, FILE *f) {
    fputs(".TH ", f);
    for (const char *s = p->name; *s; s++) fputc(toupper((unsigned char)*s), f);
    fprintf(f, " 1 \"\" \"noised %s\"\n.SH NAME\n", NOISED_VERSION);
    print_roff(f, p->name);
    fputs(" \\- ", f);
    print_roff(f, p->summary);
    fputs("\n.SH SYNOPSIS\n", f);
    for (const Command *const *c = p->commands; *c; c++) print_roff_synopsis(p, *c, f);
    for (const Command *const *c = p->commands; *c; c++) {
        fputs(".SH ", f);
        print_roff(f, (*c)->name ? (*c)->name : "DESCRIPTION");
        fputc('\n', f);
        print_roff(f, (*c)->summary);
        fputc('\n', f);
        if ((*c)->details) print_roff(f, (*c)->details), fputc('\n', f);
        if (!(*c)->name) fputs(".SH OPTIONS\n", f);
        for (int i = 0; i < (*c)->n_options; i++) print_roff_option(f, &(*c)->options[i]);
    }
    fputs(".SH COMMON OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint what a program, or a command of it, takes\n"
          ".TP\n\\fB\\-\\-version\\fR\nprint the version\n",
          f);
    fputs(".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nfailed, with one line on standard error that says why\n"
          ".TP\n2\nwrong usage\n",
          f);
    if (!p->statuses) return;
    fputs(".PP\n", f);
    print_roff(f, p->statuses);
    fputc('\n', f);
}
