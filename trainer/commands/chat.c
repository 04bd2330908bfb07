#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"
#include "trainer/commands/commands.h"
#include "trainer/text/conversation.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_ANSWER = 256 };

typedef struct ChatOptions {
    const char *model, *system, *chat_template;
    int max_tokens, threads;
    int64_t seed; /* -1: drawn for every answer */
    DrawOptions draws;
} ChatOptions;

static const char help[] = "  /seed N    the seed of the answers from now on; without N a new one for each\n"
                           "  /noise X   noise_scale: a factor on the noise, 0 for none\n"
                           "  /new       forgets what was said\n"
                           "  /help      this\n"
                           "Ctrl-C stops an answer, Ctrl-D ends the program. The same words and the same seed have\n"
                           "the same answer, here and from the daemon.\n";

/* Ctrl-C is for the answer that is being written. */
static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static bool show(void *self, const char *text, size_t n) {
    (void)self;
    fwrite(text, 1, n, stdout);
    return fflush(stdout) == 0 && !interrupted;
}

/* ---- commands ---- */

/* The number behind a command; false when it is none in low..high. */
static bool number(const char *text, double low, double high, double *x) {
    char *end;
    *x = strtod(text, &end);
    return end != text && !*end && *x >= low && *x <= high;
}

static void set_seed(ChatOptions *o, const char *text) {
    double x = -1;
    if (*text && (!number(text, 0, (double)SEED_MAX, &x) || x != floor(x)))
        fprintf(stderr, "/seed takes a whole number from 0 to %" PRIu64 ", not \"%s\"\n", (uint64_t)SEED_MAX, text);
    else
        o->seed = *text ? (int64_t)x : -1;
}

static void set_noise(ChatOptions *o, const char *text) {
    double x;
    if (number(text, 0, NOISE_SCALE_MAX, &x))
        o->draws.noise_scale = x;
    else
        fprintf(stderr, "/noise takes a number from 0 to %d, not \"%s\"\n", NOISE_SCALE_MAX, text);
}

static void obey(Conversation *c, ChatOptions *o, char *line) {
    for (size_t end = strlen(line); line[end - 1] == ' ';) line[--end] = 0;
    size_t n = strcspn(line, " ");
    const char *rest = line + n + strspn(line + n, " ");
    if (!strncmp(line, "/seed", n) && n == 5)
        set_seed(o, rest);
    else if (!strncmp(line, "/noise", n) && n == 6)
        set_noise(o, rest);
    else if (!strcmp(line, "/new"))
        conversation_forget(c);
    else if (!strcmp(line, "/help"))
        fputs(help, stderr);
    else
        fprintf(stderr, "\"%s\" is no command; /help lists them\n", line);
}

/* ---- the talk ---- */

static void answer(Conversation *c, const ChatOptions *o, const char *line) {
    Err err;
    uint64_t seed = draws_seed(o->seed);
    int gone;
    interrupted = 0;
    if (conversation_ask(c, line, &o->draws, seed, show, &gone, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return;
    }
    putchar('\n');
    fflush(stdout);
    if (gone) fprintf(stderr, "(the first %d messages no longer fit and are forgotten)\n", gone);
    fprintf(stderr, "(seed %" PRIu64 ", noise %g)\n", seed, o->draws.noise_scale);
}

/* Until the end of the input. */
static void talk(Conversation *c, ChatOptions *o) {
    bool terminal = isatty(STDIN_FILENO) == 1;
    char *line = NULL;
    size_t room = 0;
    for (;;) {
        if (terminal) fputs("> ", stderr);
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0 && interrupted) {
            interrupted = 0;
            clearerr(stdin);
            fputs("\n(Ctrl-D ends)\n", stderr);
            continue;
        }
        if (n < 0) break;
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == '/')
            obey(c, o, line);
        else if (*line)
            answer(c, o, line);
    }
    if (terminal) fputc('\n', stderr);
    free(line);
}

static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: what is being read ends, too */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

static int check(const Checkpoint *c, const ChatOptions *o, Err *err) {
    const Config *cfg = &c->model.cfg;
    if (!c->tokenizer) return err_set(err, "--model %s has no tokenizer.json", o->model);
    if (!cfg->causal || cfg->task != TASK_TEXT_GENERATION)
        return err_set(err, "--model %s: task is %s, which generates no text", o->model, task_names[cfg->task]);
    if (o->max_tokens >= cfg->max_positions)
        return err_set(err, "--max-tokens is %d, but max_position_embeddings of the model is %d", o->max_tokens,
                       cfg->max_positions);
    return config_check_kv_form(cfg, config_kv_form(cfg), err);
}

/* The template of the folder or of the option; a model without any is given lines. */
static int choose_template(Chat *chat, const Checkpoint *c, const ChatOptions *o, Err *err) {
    if (chat_open(chat, o->model, o->chat_template, &c->model.cfg, c->tokenizer, err)) return -1;
    if (!chat->program) {
        fprintf(stderr, "%s; until then it is given lines that begin with user: and assistant:\n", chat->why);
        chat_close(chat);
        if (chat_open(chat, o->model, "plain", &c->model.cfg, c->tokenizer, err)) return -1;
    }
    fprintf(stderr, "%s, template %s. /help lists commands, Ctrl-D ends.\n", o->model, chat->name);
    return 0;
}

static int chat(const Checkpoint *c, ChatOptions *o, Err *err) {
    Chat form = {0};
    Conversation conversation;
    if (check(c, o, err) || choose_template(&form, c, o, err)) return -1;
    int most = o->max_tokens ? o->max_tokens : MIN(USUAL_ANSWER, c->model.cfg.max_positions / 2);
    conversation_open(&conversation, c, &form, o->system, most);
    catch_interrupts();
    talk(&conversation, o);
    conversation_close(&conversation);
    chat_close(&form);
    return fflush(stdout) || ferror(stdout) ? err_set(err, "standard output cannot be written") : 0;
}

static int run(const CommandLine *line) {
    ChatOptions *o = line->values;
    Checkpoint c;
    Err err;
    if (o->threads) team_resize(o->threads);
    if (kernels_init(&err) || checkpoint_open(&c, o->model, &err)) return command_fail(line, &err, EXIT_FAILED);
    int rc = chat(&c, o, &err);
    checkpoint_close(&c);
    return rc ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
}

#define AT(member) offsetof(ChatOptions, member)
static const Option options[] = {
    {"model", OPTION_TEXT, AT(model), "DIR", .required = true, .help = "checkpoint to talk with"},
    {"system", OPTION_TEXT, AT(system), "TEXT", .high = DRAWS_PROMPT_BYTES,
     .help = "message of the system, before all others", .absent = "none"},
    {"chat-template", OPTION_TEXT, AT(chat_template), "NAME|FILE",
     .help = "how a conversation is written: dialogue, plain, chatml, ..., or a file that says it",
     .absent = "that of the folder, or plain"},
    {"max-tokens", OPTION_INT, AT(max_tokens), "N", 1, 1 << 20, .unit = "tokens", .help = "length of an answer",
     .absent = "256, or half the context"},
    {"seed", OPTION_INT64, AT(seed), "N", 0, (double)SEED_MAX, .help = "seed of every answer, of its noise too",
     .absent = "a new one for each"},
    DRAWS_OPTIONS(AT(draws)),
    {"threads", OPTION_INT, AT(threads), "N", 0, 1024, "0",
     .help = "threads that compute; 0: all cores that this process may use"},
};
const Command command_chat = {
    .name = "chat",
    .summary = "A conversation in the terminal: a line of yours, an answer with its seed, and so on.",
    .details = "Lines that begin with / are commands; /help lists them.",
    .size = sizeof(ChatOptions),
    .options = options,
    .n_options = COUNTOF(options),
    .run = run,
};
