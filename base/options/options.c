#include "base/options/options.h"

#include "base/err.h"
#include "base/options/guess.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- a mistyped word ---- */

static int unknown_option(const Command *c, const char *word, size_t n, Err *err) {
    const char *best = NULL;
    int nearest = 4;
    for (int i = 0; i < c->n_options; i++)
        if (!option_is_operand(&c->options[i])) guess(word, n, c->options[i].name, &best, &nearest);
    guess(word, n, "help", &best, &nearest);
    guess(word, n, "version", &best, &nearest);
    if (!best) return err_set(err, "unknown option --%.*s", (int)MIN(n, 100), word);
    return err_set(err, "unknown option --%.*s; did you mean --%s?", (int)MIN(n, 100), word, best);
}

/* ---- the words ---- */

typedef struct Words {
    char **next, **end;
    bool no_more_options; /* behind -- */
} Words;

static bool is_option(const Words *w, const char *word) { return !w->no_more_options && text_begins(word, "--"); }

static const Option *find_option(const Command *c, const char *name, size_t n) {
    for (const Option *o = c->options; o < c->options + c->n_options; o++)
        if (!option_is_operand(o) && strlen(o->name) == n && !memcmp(o->name, name, n)) return o;
    return NULL;
}

static int read_operand(CommandLine *line, const char *word, Err *err) {
    for (int i = 0; i < line->command->n_options; i++) {
        const Option *o = &line->command->options[i];
        if (!option_is_operand(o) || (line->given[i] && o->kind == OPTION_OPERAND)) continue;
        line->given[i] = true;
        return option_set(o, line->values, word, err);
    }
    return err_set(err, "\"%.100s\" is one word too many", word);
}

static int read_option(CommandLine *line, Words *w, const char *word, Err *err) {
    size_t length = strcspn(word, "=");
    const Option *o = find_option(line->command, word, length);
    if (!o) return unknown_option(line->command, word, length, err);
    bool *given = &line->given[o - line->command->options];
    if (*given && o->kind != OPTION_LIST) return err_set(err, "--%s is given twice", o->name);
    *given = true;
    const char *value = word[length] == '=' ? word + length + 1 : NULL;
    if (o->kind == OPTION_SWITCH) {
        if (value) return err_set(err, "--%s takes no value, got \"%s\"", o->name, value);
        return option_set(o, line->values, "true", err);
    }
    if (!value && (w->next == w->end || is_option(w, *w->next)))
        return err_set(err, "--%s needs a value (%s)", o->name, o->metavar);
    if (option_set(o, line->values, value ? value : *w->next++, err)) return -1;
    while (o->kind == OPTION_LIST && w->next < w->end && !is_option(w, *w->next))
        if (option_set(o, line->values, *w->next++, err)) return -1;
    return 0;
}

static int read_word(CommandLine *line, Words *w, Err *err) {
    const char *word = *w->next++;
    if (w->no_more_options || word[0] != '-' || !word[1]) return read_operand(line, word, err);
    if (word[1] != '-') return err_set(err, "\"%.100s\" is no option: they begin with two dashes", word);
    if (word[2]) return read_option(line, w, word + 2, err);
    w->no_more_options = true;
    return 0;
}

static int check_required(const CommandLine *line, Err *err) {
    for (int i = 0; i < line->command->n_options; i++) {
        const Option *o = &line->command->options[i];
        bool operand = option_is_operand(o);
        if (line->given[i] || !((operand && !o->absent) || o->required)) continue;
        if (o->unless && command_line_given(line, o->unless)) continue;
        return err_set(err, "%s%s is missing", operand ? "" : "--", o->name);
    }
    return 0;
}

int command_line_read(CommandLine *line, const Command *c, void *values, int argc, char **argv, Err *err) {
    BUG_ON(c->n_options > OPTIONS_MOST);
    line->command = c;
    line->values = values;
    memset(line->given, 0, sizeof line->given);
    memset(values, 0, c->size);
    for (int i = 0; i < c->n_options; i++) BUG_ON(option_set(&c->options[i], values, c->options[i].fallback, err));
    Words w = {.next = argv, .end = argv + argc};
    while (w.next < w.end)
        if (read_word(line, &w, err)) return -1;
    return check_required(line, err);
}

void command_line_free(CommandLine *line) {
    for (int i = 0; i < line->command->n_options; i++)
        if (option_is_list(&line->command->options[i]))
            free(((OptionList *)((char *)line->values + line->command->options[i].offset))->items);
}

bool command_line_given(const CommandLine *line, const char *name) {
    const Option *o = find_option(line->command, name, strlen(name));
    BUG_ON(!o);
    return line->given[o - line->command->options];
}

/* ---- the program ---- */

enum { WHO_BYTES = 64 }; /* of names */

static void tell(const char *who, const char *message, int status) {
    (void)status;
    fprintf(stderr, "%s: %s\n", who, message);
}

static int fail(const Program *p, const Command *c, const Err *err, int status) {
    char text[sizeof err->msg], who[WHO_BYTES], message[sizeof err->msg + 2 * WHO_BYTES];
    bool named = c && c->name;
    snprintf(text, sizeof text, "%s", err->msg);
    text_make_printable(text);
    snprintf(who, sizeof who, "%s%s%s", p->name, named ? ": " : "", named ? c->name : "");
    snprintf(message, sizeof message, "%s", text);
    if (status == EXIT_USAGE)
        snprintf(message, sizeof message, "%s (see %s%s%s --help)", text, p->name, named ? " " : "",
                 named ? c->name : "");
    (p->tell ? p->tell : tell)(who, message, status);
    return status;
}

int command_fail(const CommandLine *line, const Err *err, int status) {
    return fail(line->program, line->command, err, status);
}

static const Command *find_command(const Program *p, const char *name, Err *err) {
    const char *best = NULL;
    int nearest = 4;
    for (const Command *const *c = p->commands; *c; c++) {
        if (!strcmp((*c)->name, name)) return *c;
        guess(name, strlen(name), (*c)->name, &best, &nearest);
    }
    if (best)
        err_set(err, "unknown command \"%.100s\"; did you mean %s?", name, best);
    else
        err_set(err, "unknown command \"%.100s\"", name);
    return NULL;
}

/* Whether one of the words asks for something else than the work; then it is printed. */
static bool print_instead(const Program *p, const Command *c, int argc, char **argv) {
    static const char completion[] = "--help=completion-";
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            command_print_help(p, c, stdout);
        else if (!strcmp(argv[i], "--version"))
            printf("%s %s\n", p->name, NOISED_VERSION);
        else if (!strcmp(argv[i], "--help=man"))
            program_print_man(p, stdout);
        else if (!text_begins(argv[i], completion) ||
                 !program_print_completion(p, argv[i] + strlen(completion), stdout))
            continue;
        return true;
    }
    return false;
}

static int run_command(const Program *p, const Command *c, int argc, char **argv) {
    CommandLine line = {.program = p};
    Err err;
    void *values = xmalloc(c->size);
    int rc = command_line_read(&line, c, values, argc, argv, &err);
    int status;
    if (rc)
        status = command_fail(&line, &err, EXIT_USAGE);
    else if (p->start && p->start(&err))
        status = command_fail(&line, &err, EXIT_FAILED);
    else
        status = c->run(&line);
    command_line_free(&line);
    free(values);
    return status;
}

/* A standard stream that is closed (`2>&-`) would leave its number to the next file or client, who then gets what is
 * written to it. Held the wrong way round it fails as a closed one does. */
static int hold_standard_streams(Err *err) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            return err_set(err, "a standard stream is closed, and /dev/null cannot be opened: %s", strerror(errno));
    return 0;
}

int program_main(const Program *p, int argc, char **argv) {
    Err err;
    int status = EXIT_DONE;
    if (hold_standard_streams(&err)) return fail(p, NULL, &err, EXIT_FAILED);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond `ulimit -f` is a write that fails, and says so */
    const Command *c = p->commands[0];
    bool named = c->name != NULL;
    if (named && argc < 2) {
        command_print_usage(p, NULL, stderr);
        return EXIT_USAGE;
    }
    bool first_is_option = named && argv[1][0] == '-';
    if (first_is_option) c = NULL;
    if (named && !first_is_option) c = find_command(p, argv[1], &err);
    if (!c && !first_is_option) return fail(p, NULL, &err, EXIT_USAGE);
    int skip = named && c ? 2 : 1;
    if (!print_instead(p, c, argc - skip, argv + skip)) {
        if (!c) {
            err_set(&err, "\"%.100s\" is no command", argv[1]);
            return fail(p, NULL, &err, EXIT_USAGE);
        }
        status = run_command(p, c, argc - skip, argv + skip);
    }
    bool lost = ferror(stdout); /* some time ago, of a reason that is forgotten */
    if ((fflush(stdout) == 0 && !lost) || status) return status;
    err_set(&err, "standard output cannot be written%s%s", lost ? "" : ": ", lost ? "" : strerror(errno));
    return fail(p, c, &err, EXIT_FAILED);
}
