#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/log.h"
#include "tests/support/test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What `write` sends to stderr, malloc'ed. */
static char *caught(void (*write)(void)) {
    const char *dir = test_dir();
    const char *path = test_text("%s/log", dir);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    if (!freopen(path, "w", stderr)) return NULL;
    write();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    size_t n;
    return test_read_file(path, &n);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++) n++;
    return n;
}

static void lines(void) {
    char path[LOG_VALUE_BYTES * 2];
    memset(path, '"', sizeof path);
    path[sizeof path - 1] = 0;
    log_line("a \"quoted\" \\ %s", "\x1B[2J\nforged line \xC3\xBC\xFF");
    log_warning("%s", path);
    log_error("broken");
    LogRecord r;
    log_begin(&r, "access");
    log_text(&r, "plain", "10.0.0.1");
    log_text(&r, "path", "/a b=\"\r\nforged line\x7F\\");
    log_text(&r, "empty", "");
    log_text(&r, "absent", NULL);
    log_text(&r, "long", path);
    log_text(&r, "longer", path);
    log_integer(&r, "bytes", -12345678901234);
    log_real(&r, "seconds", 1.25);
    log_real(&r, "unknown", -1);
    log_flag(&r, "stream", true);
    log_end(&r);
}

TEST(log_lines_as_text) {
    char *text = caught(lines);
    REQUIRE(text);
    CHECK(count(text, "\n") == 4 && count(text, "\nforged") == 0 && count(text, "\x1B") == 0);
    CHECK_MSG(strstr(text, "Z a \"quoted\" \\ ?[2J?forged line \xC3\xBC?\n"), "%s", text);
    CHECK(strstr(text, "Z warning: \"\"") && strstr(text, "Z error: broken\n"));
    CHECK_MSG(strstr(text, "Z access plain=10.0.0.1 path=\"/a b=\\\"??forged line?\\\\\" empty=\"\" long=\"\\\""), "%s",
              text);
    CHECK_MSG(strstr(text, "\" bytes=-12345678901234 seconds=1.250000 stream=true\n"), "%s", text);
    free(text);
}

static cJSON *parsed(char *line) {
    Err err;
    cJSON *json = json_parse(line, strcspn(line, "\n"), 2, 32, &err);
    CHECK_MSG(json, "%s: %.200s", err.msg, line);
    return json;
}

static void check_text(const cJSON *json, const char *name, const char *value) {
    const char *found = cJSON_GetStringValue(json_field(json, name));
    CHECK_MSG(found && !strcmp(found, value), "%s is %s, not %s", name, found, value);
}

TEST(log_lines_as_json) {
    static const char *const levels[] = {"info", "warning", "error", "info"};
    log_set_format(LOG_JSON);
    char *text = caught(lines), *line = text;
    log_set_format(LOG_TEXT);
    REQUIRE(text);
    for (int i = 0; i < 4; i++, line += strcspn(line, "\n") + 1) {
        cJSON *json = parsed(line);
        check_text(json, "level", levels[i]);
        check_text(json, "event", i < 3 ? "message" : "access");
        const char *stamp = cJSON_GetStringValue(json_field(json, "time"));
        CHECK_MSG(stamp && strlen(stamp) == strlen("2026-11-22T10:00:00Z"), "%s", stamp);
        if (i == 0) check_text(json, "message", "a \"quoted\" \\ ?[2J?forged line \xC3\xBC?");
        if (i == 2) check_text(json, "message", "broken");
        if (i == 3) {
            check_text(json, "plain", "10.0.0.1");
            check_text(json, "path", "/a b=\"??forged line?\\");
            check_text(json, "empty", "");
            CHECK(!json_field(json, "absent") && !json_field(json, "unknown"));
            CHECK(cJSON_GetNumberValue(json_field(json, "bytes")) == -12345678901234);
            CHECK(cJSON_GetNumberValue(json_field(json, "seconds")) == 1.25);
            CHECK(cJSON_IsTrue(json_field(json, "stream")));
        }
        cJSON_Delete(json);
    }
    CHECK_MSG(!*line, "%s", line);
    free(text);
}

enum { FLOOD = 5000 };

static void flood(void) {
    for (int i = 0; i <= FLOOD; i++) {
        if (i == FLOOD) usleep(1500000 / LOG_RATE);
        if (i == FLOOD) log_set_format(LOG_JSON);
        log_line("flood %s", "\xC2\x9B");
    }
    log_set_format(LOG_TEXT);
    log_line("another kind");
    for (int i = 0; i < FLOOD; i++) {
        LogRecord r;
        log_begin(&r, "record");
        log_end(&r);
    }
}

TEST(log_floods_are_cut_and_counted) {
    uint64_t before = log_dropped();
    char *text = caught(flood);
    REQUIRE(text);
    int n = count(text, "flood ?"), dropped = (int)(log_dropped() - before);
    CHECK_MSG(n >= LOG_BURST && n < LOG_BURST + 100, "%d lines", n);
    CHECK(count(text, "\xC2") == 0);
    CHECK_MSG(count(text, "another kind") == 1, "one kind hides another");
    CHECK_MSG(count(text, "lines like this were left out)\"}\n") == 1, "the last line does not count");
    CHECK_MSG(dropped > 0 && dropped == FLOOD + 1 - n, "%d dropped, %d lines", dropped, n);
    CHECK_MSG(count(text, "Z record\n") == FLOOD, "records are left out");
    free(text);
}

static void detached_child(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        if (log_detach()) _exit(3);
        for (int i = 0; i < 50; i++) log_line("line %d", i);
        bug_abort("file.c", 7, "something impossible");
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A process that ends by a bug says so first, and what it had said before. */
TEST(log_detached_tells_of_a_bug) {
    char *text = caught(detached_child);
    REQUIRE(text);
    CHECK_MSG(count(text, " line ") == 50 && strstr(text, "error: bug: file.c:7: something impossible\n"), "%s", text);
    CHECK(log_lost() == 0);
    free(text);
}
