/* The command line: one parser, whatever the program. */
#include "base/options/options.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Values {
    const char *text, *kept, *from, *to;
    OptionList list;
    int count, choice;
    int64_t many;
    double real, pair[2], unset;
    bool on;
} Values;

static const char *const colours[] = {"red", "green", NULL};

#define AT(member) offsetof(Values, member)
static const Option options[] = {
    {"text", OPTION_TEXT, AT(text), "TEXT", .help = "a text"},
    {"kept", OPTION_TEXT, AT(kept), "TEXT", .fallback = "as is", .help = "another"},
    {"list", OPTION_LIST, AT(list), "FILE...", .help = "many"},
    {"count", OPTION_INT, AT(count), "N", 1, 64, "8", .help = "how many"},
    {"many", OPTION_INT64, AT(many), "N", 0, 9007199254740991, .help = "very many"},
    {"real", OPTION_REAL, AT(real), "S", 0, 10, "2.5", "seconds", .help = "how long"},
    {"unset", OPTION_REAL, AT(unset), "S", 0, 10, .help = "no default", .absent = "half of --real"},
    {"pair", OPTION_PAIR, AT(pair), "X,Y", 0, 1, "0.5,0.25", .help = "two"},
    {"choice", OPTION_CHOICE, AT(choice), "COLOUR", .fallback = "green", .choices = colours, .help = "which"},
    {"on", OPTION_SWITCH, AT(on), .help = "whether"},
    {"FROM", OPTION_OPERAND, AT(from), .help = "read"},
    {"TO", OPTION_OPERAND, AT(to), .help = "written"},
};

static int ran(const CommandLine *line) { return ((const Values *)line->values)->count; }

static const Command paint = {.name = "paint",
                              .summary = "Paints.",
                              .size = sizeof(Values),
                              .options = options,
                              .n_options = COUNTOF(options),
                              .run = ran};
static const Program program = {
    .name = "painter", .summary = "paint", .commands = (const Command *const[]){&paint, NULL}};

/* Splits a copy of `text` at blanks; the words live as long as the copy. */
static int split(char *text, char *words[32]) {
    int n = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) words[n++] = word;
    return n;
}

static int parse(CommandLine *line, Values *v, char *text, Err *err) {
    char *words[32];
    int n = split(text, words);
    return command_line_read(line, &paint, v, n, words, err);
}

typedef struct Folders {
    const char *to;
    OptionList from;
} Folders;

TEST(options_take_all_operands_that_are_left) {
    static const Option words[] = {
        {"TO", OPTION_OPERAND, offsetof(Folders, to), .help = "written"},
        {"FROM", OPTION_OPERANDS, offsetof(Folders, from), .help = "read"},
        {"on", OPTION_SWITCH, sizeof(Folders), .help = "whether"},
    };
    struct {
        Folders f;
        bool on;
    } v;
    const Command gather = {
        .name = "gather", .summary = "Gathers.", .size = sizeof v, .options = words, .n_options = COUNTOF(words)};
    static char *given[] = {"to", "a", "--on", "b", "c"};
    CommandLine line;
    Err err;
    REQUIRE(command_line_read(&line, &gather, &v, 5, given, &err) == 0);
    CHECK(!strcmp(v.f.to, "to") && v.f.from.n == 3 && !strcmp(v.f.from.items[2], "c") && v.on);
    command_line_free(&line);
    CHECK(command_line_read(&line, &gather, &v, 1, given, &err) == -1 && !strcmp(err.msg, "FROM is missing"));
    command_line_free(&line);
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    command_print_usage(&(Program){.name = "p", .commands = (const Command *const[]){&gather, NULL}}, &gather, f);
    fclose(f);
    CHECK_MSG(!strcmp(text, "usage: p gather [option...] TO FROM...\n"), "%s", text);
    free(text);
}

TEST(options_fill_the_struct) {
    char text[] = "a --text=x=y --count 3 --list p q --on --real=0.1 --list=r --pair 1,0 -- --b";
    CommandLine line;
    Values v;
    Err err;
    REQUIRE(parse(&line, &v, text, &err) == 0);
    CHECK(!strcmp(v.text, "x=y") && !strcmp(v.kept, "as is") && v.count == 3 && v.real == 0.1 && v.on);
    CHECK(v.pair[0] == 1 && v.pair[1] == 0 && v.choice == 1 && isnan(v.unset) && v.many == -1);
    CHECK(v.list.n == 3 && !strcmp(v.list.items[0], "p") && !strcmp(v.list.items[2], "r"));
    CHECK(!strcmp(v.from, "a") && !strcmp(v.to, "--b"));
    CHECK(command_line_given(&line, "on") && !command_line_given(&line, "choice"));
    command_line_free(&line);
}

TEST(options_refuse_what_is_wrong) {
    static const char *const cases[][2] = {
        {"a", "TO is missing"},
        {"a b c", "\"c\" is one word too many"},
        {"a b -c", "\"-c\" is no option"},
        {"a b --count", "--count needs a value (N)"},
        {"a b --count --on", "--count needs a value (N)"},
        {"a b --count=", "--count: \"\" is not an integer"},
        {"a b --count 65", "--count is 65, must be 1 to 64"},
        {"a b --count 3x", "--count: \"3x\" is not an integer"},
        {"a b --count 1.5", "--count: \"1.5\" is not an integer (1000, 1e3 and 1k are)"},
        {"a b --count 0.0001k", "--count: \"0.0001k\" is not an integer"},
        {"a b --count 1kk", "--count: \"1kk\" is not an integer"},
        {"a b --count 0x10", "--count: \"0x10\" is not an integer"},
        {"a b --many 1e300", "--many: \"1e300\" is not an integer"},
        {"a b --count 1k", "--count is 1k, must be 1 to 64"},
        {"a b --many 99999999999999999999", "must be 0 to 9007199254740991"},
        {"a b --real nan", "--real is nan, must be 0 to 10"},
        {"a b --pair 1", "--pair: \"1\" is not two numbers"},
        {"a b --choice blue", "--choice is \"blue\", must be one of red, green"},
        {"a b --text=", "--text is empty"},
        {"a b --on=1", "--on takes no value, got \"1\""},
        {"a b --on --on", "--on is given twice"},
        {"a b --cuont 3", "unknown option --cuont; did you mean --count?"},
        {"a b --ver", "unknown option --ver; did you mean --version?"},
        {"a b --FROM x", "unknown option --FROM"},
        {"a b --colour red", "unknown option --colour"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *text = strdup(cases[i][0]);
        CommandLine line;
        Values v;
        Err err = {""};
        int rc = parse(&line, &v, text, &err);
        CHECK_MSG(rc == -1 && strstr(err.msg, cases[i][1]), "%s: %d %s", cases[i][0], rc, err.msg);
        command_line_free(&line);
        free(text);
    }
}

TEST(options_print_what_they_read) {
    char text[] = "a b --real 0.30000000000000004 --pair 0.1,1e-07 --many 9007199254740991 --choice red";
    CommandLine line;
    Values v, again = {0};
    Err err;
    REQUIRE(parse(&line, &v, text, &err) == 0);
    for (size_t i = 0; i < COUNTOF(options); i++) {
        char printed[OPTION_TEXT_BYTES], second[OPTION_TEXT_BYTES];
        if (options[i].kind == OPTION_LIST) continue;
        option_text(&options[i], &v, printed);
        REQUIRE(option_set(&options[i], &again, *printed ? printed : NULL, &err) == 0);
        option_text(&options[i], &again, second);
        CHECK_MSG(!strcmp(printed, second), "%s: %s, %s", options[i].name, printed, second);
    }
    CHECK(again.real == v.real && again.pair[1] == 1e-7 && again.many == v.many && isnan(again.unset));
    command_line_free(&line);
}

static char *printed_by(void (*print)(const Program *p, FILE *f)) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    print(&program, f);
    fclose(f);
    return text;
}

static void print_help(const Program *p, FILE *f) { command_print_help(p, &paint, f); }
static void print_bash(const Program *p, FILE *f) { program_print_completion(p, "bash", f); }

/* Every option is in the help, the manual and the completion, and the help fits a terminal. */
TEST(options_are_documented_by_their_table) {
    char *help = printed_by(print_help), *man = printed_by(program_print_man);
    char *completion = printed_by(print_bash);
    for (size_t i = 0; i < COUNTOF(options); i++) {
        bool operand = options[i].kind == OPTION_OPERAND;
        const char *dashed = test_text("%s%s", operand ? "  " : "--", options[i].name);
        CHECK_MSG(strstr(help, dashed) && strstr(man, test_text(operand ? "\\fI%s" : "\\fB\\-\\-%s", options[i].name)),
                  "%s", options[i].name);
        CHECK_MSG(operand || strstr(completion, dashed), "%s", options[i].name);
    }
    CHECK_MSG(strstr(help, "usage: painter paint [option...] FROM TO\n"), "%s", help);
    CHECK(strstr(help, "how long [0 to 10 seconds;") && strstr(help, "half of --real]"));
    CHECK(strstr(completion, "\"paint --choice\") words=\"red green\""));
    for (const char *line = help; *line;) {
        size_t n = strcspn(line, "\n");
        CHECK_MSG(n <= 80, "%.*s", (int)n, line);
        line += n + 1;
    }
    free(help);
    free(man);
    free(completion);
}

TEST(options_program_runs_its_command) {
    static char *run[] = {"painter", "paint", "a", "b", "--count", "7", NULL};
    CHECK(program_main(&program, 6, run) == 7);
    CHECK(program_main(&program, 4, run) == 8);
}

/* Closed ones stay nobody's: a file that is opened later gets none of their numbers, and what is printed is lost as
 * before, which is a failure of who prints. */
TEST(options_program_holds_closed_streams) {
    static char *run[] = {"painter", "paint", "a", "b", "--count", "7", NULL}, *help[] = {"painter", "--help", NULL};
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 0; fd <= 2; fd++) close(fd);
        int status = program_main(&program, 6, run), fd = open("/dev/null", O_RDWR);
        bool held = status == 7 && fd > 2 && write(1, "x", 1) < 0 && write(2, "x", 1) < 0 && read(0, &status, 1) < 0;
        _exit(held ? program_main(&program, 2, help) : 99);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_MSG(WEXITSTATUS(status) == 1, "%d", WEXITSTATUS(status));
}
