/* noised-train chat: lines in, answers out; beside the daemon. */
#include "base/err.h"
#include "tests/support/http_client.h"
#include "tests/support/talk.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Talk {
    pid_t pid;
    FILE *in, *out; /* standard error is in `out` too */
} Talk;

static bool talk_start(Talk *t, const char *model, const char *option, const char *value) {
    int in[2], out[2];
    const char *build = getenv("BUILD");
    const char *program = test_text("%s/noised-train", build ? build : "build");
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return false;
    fflush(stdout);
    t->pid = fork();
    if (t->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        execl(program, "noised-train", "chat", "--model", model, option, value, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->in = fdopen(in[1], "w");
    t->out = fdopen(out[0], "r");
    return t->in && t->out;
}

static void say(Talk *t, const char *line) {
    fprintf(t->in, "%s\n", line);
    fflush(t->in);
}

/* The next line of either kind; what comes when there is none is "". */
static char *hear(Talk *t, char line[4096]) {
    if (!fgets(line, 4096, t->out)) line[0] = 0;
    line[strcspn(line, "\n")] = 0;
    return line;
}

static int talk_end(Talk *t) {
    int status;
    fclose(t->in);
    waitpid(t->pid, &status, 0);
    fclose(t->out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_answer(const Daemon *d, const char *messages, const char *heard) {
    Answer a = http_post(
        d, "/v1/chat/completions",
        test_text("{\"messages\":[%s],\"seed\":3,\"max_tokens\":256,\"temperature\":0.8,\"top_k\":50}", messages));
    const char *want = json_text(a.json, "choices.0.message.content");
    CHECK_MSG(want && *want && !strcmp(want, heard), "%s\nagainst %s", heard, a.body);
}

TEST(chat_says_what_the_daemon_says) {
    static const char first[] = "{\"role\":\"user\",\"content\":\"Where have you been?\"}";
    char line[4096], messages[1024];
    Daemon d;
    Talk t;
    REQUIRE(daemon_start_at(&d, "weights/demo", NULL));
    REQUIRE(talk_start(&t, "weights/demo", "--seed", "3"));
    CHECK_MSG(strstr(hear(&t, line), "template dialogue"), "%s", line);
    say(&t, "Where have you been?");
    check_answer(&d, first, hear(&t, line));
    cJSON *said = cJSON_CreateString(line);
    char *text = cJSON_PrintUnformatted(said);
    snprintf(messages, sizeof messages,
             "%s,{\"role\":\"assistant\",\"content\":%s},{\"role\":\"user\",\"content\":\"And then?\"}", first, text);
    CHECK_MSG(!strcmp(hear(&t, line), "(seed 3, noise 1)"), "%s", line);
    say(&t, "And then?");
    check_answer(&d, messages, hear(&t, line));
    CHECK(talk_end(&t) == 0);
    cJSON_free(text);
    cJSON_Delete(said);
    daemon_stop(&d);
}

TEST(chat_obeys_commands) {
    char line[4096], first[4096];
    Talk t;
    REQUIRE(talk_start(&t, "weights/demo", "--max-tokens", "20"));
    hear(&t, line);
    say(&t, "/seed 5");
    say(&t, "Who is there?");
    hear(&t, first);
    CHECK_MSG(!strcmp(hear(&t, line), "(seed 5, noise 1)"), "%s", line);
    say(&t, "caf\xE9");
    CHECK_MSG(!strcmp(hear(&t, line), "message 2 is no valid UTF-8"), "%s", line);
    say(&t, "/new");
    say(&t, "Who is there?");
    CHECK_MSG(!strcmp(hear(&t, line), first), "%s against %s", line, first);
    hear(&t, line);
    say(&t, "/noise 2.5");
    say(&t, "/seed 6e1 ");
    say(&t, "/new ");
    say(&t, "Who is there?");
    CHECK_MSG(strcmp(hear(&t, line), first), "%s", line);
    CHECK_MSG(!strcmp(hear(&t, line), "(seed 60, noise 2.5)"), "%s", line);
    static const char *const wrong[][2] = {{"/seed x", "/seed takes a whole number from 0 to "},
                                           {"/seed 1.5", "/seed takes a whole number from 0 to "},
                                           {"/noise", "/noise takes a number from 0 to 8, not \"\""},
                                           {"/noise 9", "/noise takes a number from 0 to 8, not \"9\""},
                                           {"/sed 3", "\"/sed 3\" is no command; /help lists them"}};
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        say(&t, wrong[i][0]);
        CHECK_MSG(!strncmp(hear(&t, line), wrong[i][1], strlen(wrong[i][1])), "%s: %s", wrong[i][0], line);
    }
    say(&t, "/seed");
    say(&t, "Who is there?");
    hear(&t, line);
    CHECK_MSG(!strncmp(hear(&t, line), "(seed ", 6) && strncmp(line, "(seed 6,", 8), "%s", line);
    CHECK(talk_end(&t) == 0);
}

/* More is said than 512 tokens hold. */
TEST(chat_forgets_what_no_longer_fits) {
    char line[4096], text[512] = "";
    bool gone = false;
    Talk t;
    REQUIRE(talk_start(&t, test_checkpoint(CHECKPOINT_SMALL), "--max-tokens", "20"));
    hear(&t, line);
    for (int i = 0; i < 50; i++) strcat(text, "a whale ");
    for (int i = 0; i < 6; i++) {
        say(&t, text);
        while (strncmp(hear(&t, line), "(seed ", 6) && *line) gone = gone || strstr(line, "no longer fit");
    }
    CHECK(gone);
    for (int i = 0; i < 20; i++) fprintf(t.in, "%s", text);
    say(&t, "");
    CHECK_MSG(strstr(hear(&t, line), "are more than the 512 that the model has room for"), "%s", line);
    CHECK(talk_end(&t) == 0);
}

/* A new talk, and its first question. */
static bool ask_of_the_night(Talk *t) {
    char line[4096];
    if (!talk_start(t, "weights/demo", "--max-tokens", "500")) return false;
    hear(t, line);
    say(t, "/seed 4");
    say(t, "/noise 0");
    say(t, "It was a dark night and");
    return true;
}

/* An interrupt behind the first byte of the answer; false when all of it was written by then. */
static bool interrupt(const char *whole) {
    char line[4096];
    Talk t;
    if (!ask_of_the_night(&t)) return false;
    int c = getc(t.out);
    kill(t.pid, SIGINT);
    ungetc(c, t.out);
    hear(&t, line);
    bool within = strlen(line) < strlen(whole);
    CHECK_MSG(!strncmp(line, whole, strlen(line)), "%s\nof %s", line, whole);
    CHECK_MSG(!strcmp(hear(&t, line), "(seed 4, noise 0)"), "%s", line);
    say(&t, "/help");
    if (within) CHECK_MSG(strstr(hear(&t, line), "/seed N"), "%s", line);
    CHECK(talk_end(&t) == 0);
    return within;
}

TEST(chat_interrupt_ends_the_answer_alone) {
    char whole[4096];
    bool within = false;
    Talk t;
    REQUIRE(ask_of_the_night(&t));
    hear(&t, whole);
    CHECK(talk_end(&t) == 0);
    for (int try = 0; try < TRIES && !within; try++) within = interrupt(whole);
    CHECK(within);
}

TEST(chat_dialogue_is_a_page_of_a_novel) {
    cJSON *messages = cJSON_Parse("[{\"role\":\"system\",\"content\":\"It rained.\"},"
                                  "{\"role\":\"user\",\"content\":\"Who is there?\"},"
                                  "{\"role\":\"assistant\",\"content\":\"\\\"I am,\\\" said he.\"},"
                                  "{\"role\":\"user\",\"content\":\"Come in.\"}]");
    const ChatRequest request = {.messages = messages};
    Buffer text = {0};
    Chat chat;
    Err err;
    REQUIRE(test_chat_open(&chat, "weights/demo/chat_template.jinja", "", ""));
    CHECK(!strcmp(chat.name, "dialogue") && !strcmp(chat.stop, "\n"));
    REQUIRE(chat_write(&chat, &request, &text, &err) == 0);
    buffer_append(&text, "", 1);
    CHECK_MSG(!strcmp(text.data, "It rained.\n\"Who is there?\"\n\"I am,\" said he.\n\"Come in.\"\n"), "%s", text.data);
    buffer_free(&text);
    chat_close(&chat);
    cJSON_Delete(messages);
}
