/* What bash, zsh and fish complete behind a program's name. Where a word is due that no table knows, files are. */
#include "base/err.h"
#include "base/memory.h"
#include "base/options/options.h"

#include <stdlib.h>
#include <string.h>

static bool takes_value(const Option *o) { return o->kind != OPTION_SWITCH && !option_is_operand(o); }
static bool has_words(const Option *o) { return o->choices || o->offer; }

/* The words that may be its value, a blank before each but the first. */
static void print_words(FILE *f, const Option *o) {
    char word[OPTION_OFFER];
    for (int i = 0; o->choices && o->choices[i]; i++) fprintf(f, "%s%s", i ? " " : "", o->choices[i]);
    for (int i = 0; o->offer && o->offer(i, word); i++) fprintf(f, "%s%s", i ? " " : "", word);
}

/* Text inside single quotes, with a backslash before each of `special`. A quote is what `quote` says. */
static void print_quoted(FILE *f, const char *text, const char *special, const char *quote) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs(quote, f);
            continue;
        }
        if (strchr(special, *text)) fputc('\\', f);
        fputc(*text, f);
    }
}

/* ---- bash ---- */

/* Lines of a `case` over "command previous-word"; a program of one command has none in front. */
static void print_value_cases(FILE *f, const Command *c) {
    const char *name = c->name ? c->name : "";
    for (int i = 0; i < c->n_options; i++) {
        const Option *o = &c->options[i];
        if (!has_words(o)) continue;
        fprintf(f, "    \"%s --%s\") words=\"", name, o->name);
        print_words(f, o);
        fputs("\" ;;\n", f);
    }
    const char *lead = "    ";
    for (int i = 0; i < c->n_options; i++) {
        if (!takes_value(&c->options[i]) || has_words(&c->options[i])) continue;
        fprintf(f, "%s\"%s --%s\"", lead, name, c->options[i].name);
        lead = " | ";
    }
    if (*lead && lead[1] == '|') fputs(") ;;\n", f);
}

static void print_option_case(FILE *f, const Command *c) {
    bool operands = false;
    for (int i = 0; i < c->n_options; i++) operands |= option_is_operand(&c->options[i]);
    fprintf(f, "    \"%s \"*) %swords=\"--help --version", c->name ? c->name : "",
            operands ? "[ \"${word:0:1}\" = - ] && " : "");
    for (int i = 0; i < c->n_options; i++)
        if (!option_is_operand(&c->options[i])) fprintf(f, " --%s", c->options[i].name);
    fputs("\" ;;\n", f);
}

/* "--name=value" is three words, but one where COMP_WORDBREAKS has lost its '=', which npm's completion takes away. */
static const char bash_equals[] = "    case \"$word\" in\n"
                                  "    =) word= ;;\n"
                                  "    --*=*) previous=${word%%=*} word=${word#*=} prefix=$previous= ;;\n"
                                  "    *) [ \"$previous\" = = ] && previous=${COMP_WORDS[COMP_CWORD-2]} ;;\n"
                                  "    esac\n";

/* Empty words: files (-o default). */
static void print_bash(const Program *p, FILE *f) {
    bool named = p->commands[0]->name != NULL;
    char *function = xstrdup(p->name);
    for (char *s = function; *s; s++)
        if (*s == '-') *s = '_';
    fprintf(f, "_%s() {\n    local words= command= prefix= files= word=${COMP_WORDS[COMP_CWORD]}", function);
    fprintf(f, " previous=${COMP_WORDS[COMP_CWORD-1]}\n%s%s",
            named ? "    [ \"$COMP_CWORD\" -gt 1 ] && command=${COMP_WORDS[1]}\n" : "", bash_equals);
    fputs("    case \"$command $previous\" in\n", f);
    for (const Command *const *c = p->commands; *c; c++) print_value_cases(f, *c);
    for (const Command *const *c = p->commands; *c; c++) print_option_case(f, *c);
    if (named) {
        fputs("    *) words=\"--help --version", f);
        for (const Command *const *c = p->commands; *c; c++) fprintf(f, " %s", (*c)->name);
        fputs("\" ;;\n", f);
    }
    fputs("    esac\n    [ \"$words\" ] || files=${prefix:+-f}\n"
          "    COMPREPLY=($(compgen -P \"$prefix\" $files -W \"$words\" -- \"$word\"))\n}\n",
          f);
    fprintf(f, "complete -o default -F _%s %s\n", function, p->name);
    free(function);
}

/* ---- zsh ---- */

static const char zsh_special[] = "\\[]:", zsh_quote[] = "'\\''";

/* '--name=[help]:METAVAR:what completes it': as _arguments wants it, "*" in front when it may be given again. */
static void print_zsh_option(FILE *f, const Option *o) {
    if (option_is_operand(o)) {
        fprintf(f, " \\\n        '%s:%s:_files'", option_is_list(o) ? "*" : "", o->name);
        return;
    }
    fprintf(f, " \\\n        '%s--%s%s[", option_is_list(o) ? "*" : "", o->name, !takes_value(o) ? "" : "=");
    print_quoted(f, o->help, zsh_special, zsh_quote);
    fputc(']', f);
    if (takes_value(o)) {
        fputc(':', f);
        print_quoted(f, o->metavar, zsh_special, zsh_quote);
        fputs(o->choices ? ":(" : o->offer ? ":{compadd \"$expl[@]\" - " : "", f);
        print_words(f, o);
        fputs(o->choices ? ")" : o->offer ? "; _files}" : option_is_number(o) ? ":" : ":_files", f);
    }
    fputc('\'', f);
}

static void print_zsh_command(FILE *f, const Command *c) {
    if (c->name) fprintf(f, "%s)\n    ", c->name);
    fputs("_arguments '(- *)'{-h,--help}'[print the help]' '(- *)--version[print the version]'", f);
    bool list = false, operands = false;
    for (int i = 0; i < c->n_options; i++) {
        print_zsh_option(f, &c->options[i]);
        list |= c->options[i].kind == OPTION_LIST;
        operands |= option_is_operand(&c->options[i]);
    }
    if (list && !operands) fputs(" \\\n        '*:FILE:_files'", f); /* a list's second word and those behind it */
    fputs(c->name ? "\n    ;;\n" : "\n", f);
}

static void print_zsh(const Program *p, FILE *f) {
    fprintf(f, "#compdef %s\n", p->name);
    if (!p->commands[0]->name) {
        print_zsh_command(f, p->commands[0]);
        return;
    }
    fputs("if (( CURRENT == 2 )); then\n    local -a commands=(", f);
    for (const Command *const *c = p->commands; *c; c++) {
        fprintf(f, "\n        '%s:", (*c)->name);
        print_quoted(f, (*c)->summary, "\\", zsh_quote);
        fputc('\'', f);
    }
    fputs(
        "\n        '--help:print the help' '--version:print the version')\n    _describe command commands\n    return\n"
        "fi\nlocal command=$words[2]\nshift words\n(( CURRENT-- ))\ncase $command in\n",
        f);
    for (const Command *const *c = p->commands; *c; c++) print_zsh_command(f, *c);
    fputs("esac\n", f);
}

/* ---- fish ---- */

static const char fish_special[] = "\\", fish_quote[] = "\\'";

static void print_fish_option(const Program *p, const Command *c, const Option *o, FILE *f) {
    fprintf(f, "complete -c %s", p->name);
    if (c->name) fprintf(f, " -n 'contains -- %s (commandline -opc)[2]'", c->name);
    fprintf(f, " -l %s", o->name);
    if (takes_value(o)) fputs(o->choices || option_is_number(o) ? " -x" : " -r", f);
    if (has_words(o)) {
        fputs(" -a '", f);
        print_words(f, o);
        fputc('\'', f);
    }
    fputs(" -d '", f);
    print_quoted(f, o->help, fish_special, fish_quote);
    fputs("'\n", f);
}

static void print_fish(const Program *p, FILE *f) {
    fprintf(f, "complete -c %s -s h -l help -d 'print the help'\ncomplete -c %s -l version -d 'print the version'\n",
            p->name, p->name);
    for (const Command *const *c = p->commands; *c; c++) {
        if ((*c)->name) {
            fprintf(f, "complete -c %s -n 'test (count (commandline -opc)) = 1' -f -a %s -d '", p->name, (*c)->name);
            print_quoted(f, (*c)->summary, fish_special, fish_quote);
            fputs("'\n", f);
        }
        for (int i = 0; i < (*c)->n_options; i++)
            if (!option_is_operand(&(*c)->options[i])) print_fish_option(p, *c, &(*c)->options[i], f);
    }
}

bool program_print_completion(const Program *p, const char *shell, FILE *f) {
    static const struct {
        const char *shell;
        void (*print)(const Program *p, FILE *f);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < COUNTOF(shells); i++) {
        if (strcmp(shell, shells[i].shell)) continue;
        shells[i].print(p, f);
        return true;
    }
    return false;
}
