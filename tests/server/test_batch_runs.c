/* noised --batch that ends before the end, its command line, and files that are something else. */
#include "tests/server/test_batch.h"

#include "base/clock.h"
#include "base/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- ends before the end ---- */

enum { MANY = 160 };

static void write_many(const BatchPlace *p, int n, const char *more) {
    Buffer b = {0};
    for (int i = 0; i < n; i++) {
        batch_put(&b, test_text("r%d", i), "/v1/completions",
                  test_text("{\"prompt\":\"The river\",\"max_tokens\":24,\"seed\":%d%s}", i, more));
    }
    batch_write(p, &b);
}

static int count_results(const BatchPlace *p) {
    char *text = test_read_file(p->out, NULL);
    int n = text ? text_count(text, "\n") : 0;
    free(text);
    return n;
}

/* A batch that runs, and has written a line, or has ended. */
static pid_t begin_batch(const BatchPlace *p) {
    const char *build = getenv("BUILD");
    int before = count_results(p);
    const char *program = test_text("%s/noised", build ? build : "build");
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "a", stdout) || !freopen("/dev/null", "a", stderr)) _exit(127);
        execl(program, program, "--model", p->model, "--batch", p->in, "--out", p->out, "--threads", "1", "--max-batch",
              "2", (char *)NULL);
        _exit(127);
    }
    siginfo_t ended = {0};
    while (count_results(p) <= before && waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid != pid)
        usleep(500);
    return pid;
}

static char *text_of(const BatchResults *r, int i) {
    return json_raw(batch_result(r, test_text("r%d", i)), "response.body.choices");
}

/* Each request once, with what an undisturbed run says; `before` is still there. */
static void check_whole(const BatchPlace *p, const BatchResults *right, const char *before) {
    BatchResults r = batch_results(p);
    CHECK_MSG(r.n == right->n, "%d results of %d", r.n, right->n);
    CHECK(!strncmp(r.text, before, strlen(before)));
    for (int i = 0; i < right->n; i++) {
        char *is = text_of(&r, i), *should = text_of(right, i);
        CHECK_MSG(is && should && !strcmp(is, should), "r%d: %s, not %s", i, is, should);
        free(is);
        free(should);
    }
    batch_results_free(&r);
}

/* Whether the signal came in time. What was written before it is still there. */
static bool stop_batch(const BatchPlace *p, int signal_number) {
    int status;
    char *before = test_read_file(p->out, NULL);
    pid_t pid = begin_batch(p);
    kill(pid, signal_number);
    waitpid(pid, &status, 0);
    bool stopped = signal_number == SIGKILL ? WIFSIGNALED(status)
                                            : WIFEXITED(status) && WEXITSTATUS(status) == 128 + signal_number;
    bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK_MSG(stopped || whole, "signal %d: %x", signal_number, (unsigned)status);
    char *now = test_read_file(p->out, NULL);
    CHECK(now && (!before || !strncmp(now, before, strlen(before))));
    free(before);
    free(now);
    return stopped;
}

/* A batch that was faster than a signal begins anew, and so do the signals. */
TEST(batch_goes_on_where_it_was) {
    static const int signals[] = {SIGKILL, SIGINT, SIGTERM, SIGHUP, SIGKILL};
    BatchPlace right_place = batch_place(CHECKPOINT_SMALL), p = batch_place(CHECKPOINT_SMALL);
    write_many(&right_place, MANY, "");
    write_many(&p, MANY, "");
    REQUIRE(batch_to_its_end(&right_place, "", NULL) == 0);
    BatchResults right = batch_results(&right_place);
    size_t stopped = 0;
    for (int try = 0; try < TRIES && stopped < COUNTOF(signals); try++) {
        unlink(p.out);
        for (stopped = 0; stopped < COUNTOF(signals) && stop_batch(&p, signals[stopped]);) stopped++;
    }
    CHECK_MSG(stopped == COUNTOF(signals), "all of it was done before signal %zu came", stopped);
    char *before = test_read_file(p.out, NULL);
    char *torn;
    if (asprintf(&torn, "%s{\"id\":\"batch_req_9\",\"custom_id\":\"r8\",\"resp", before) < 0) return;
    test_write_file(p.out, torn, strlen(torn));
    CHECK(batch_to_its_end(&p, "", NULL) == 0);
    check_whole(&p, &right, before);
    free(torn);
    free(before);
    batch_results_free(&right);
}

TEST(batch_says_when_the_disk_is_full) {
    BatchPlace right_place = batch_place(CHECKPOINT_SMALL), p = batch_place(CHECKPOINT_SMALL);
    const char *build = getenv("BUILD");
    write_many(&right_place, MANY, "");
    write_many(&p, MANY, "");
    REQUIRE(batch_to_its_end(&right_place, "", NULL) == 0);
    BatchResults right = batch_results(&right_place);
    const char *says = test_text("%s/says", p.dir);
    int status =
        system(test_text("bash -c 'ulimit -f 16; %s/noised --model %s --threads 1 --batch %s --out %s >/dev/null 2>%s'",
                         build ? build : "build", p.model, p.in, p.out, says));
    char *said = test_read_file(says, NULL), *before = test_read_file(p.out, NULL);
    CHECK_MSG(WEXITSTATUS(status) == 1 && strstr(said, "out.jsonl cannot be written: File too large"), "%d: %s", status,
              said);
    size_t n = strlen(before);
    CHECK_MSG(n > 0 && n <= 16 << 10 && before[n - 1] == '\n', "%zu bytes", n);
    CHECK(batch_to_its_end(&p, "", NULL) == 0);
    check_whole(&p, &right, before);
    free(said);
    free(before);
    batch_results_free(&right);
}

/* Of a request that was refused, too: it is not asked again. */
TEST(batch_tells_of_the_errors_of_a_former_run) {
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    batch_put(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    batch_put(&b, "b", "/tokenize", "{\"prompt\":1}");
    batch_write(&p, &b);
    for (int again = 0; again < 2; again++) {
        char *said;
        int status = batch_to_its_end(&p, "", &said);
        CHECK_MSG(status == 3 && count_results(&p) == 2 && !strstr(said, "are of no line"), "%d: %s", status, said);
        free(said);
    }
}

TEST(batch_feeds_no_more_than_the_queue_takes) {
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    write_many(&p, 60, ",\"n\":3");
    CHECK(batch_to_its_end(&p, "--max-batch 4 --max-queue 3", NULL) == 0);
    BatchResults r = batch_results(&p);
    CHECK(r.n == 60);
    for (int i = 0; i < r.n; i++) CHECK(json_number(r.lines[i], "response.status_code") == 200);
    batch_results_free(&r);
}

/* ---- the command line, and files that are something else ---- */

static void expect(const BatchPlace *p, int status, const char *says, const char *fmt, ...) {
    char options[1500], *said;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(options, sizeof options, fmt, ap);
    va_end(ap);
    int got = daemon_run(options, &said);
    CHECK_MSG(got == status && strstr(said, says), "%s in %s: %d %s", options, p->dir, got, said);
    free(said);
}

TEST(batch_refuses_what_means_nothing) {
    static const char *const for_clients[] = {"--host 127.0.0.1",
                                              "--port 0",
                                              "--insecure",
                                              "--api-key-file x",
                                              "--public-models",
                                              "--cors-origin x",
                                              "--allowed-host x",
                                              "--requests-per-minute 1",
                                              "--tokens-per-minute 1",
                                              "--max-connections 1",
                                              "--max-connections-per-address 1",
                                              "--max-bodies 1024",
                                              "--header-seconds 1",
                                              "--body-seconds 1",
                                              "--idle-seconds 1",
                                              "--write-seconds 1",
                                              "--ping-seconds 1",
                                              "--queue-seconds 1",
                                              "--stream-seconds 1",
                                              "--drain-seconds 1",
                                              "--access-log",
                                              "--no-slots"};
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    batch_put(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    batch_write(&p, &b);
    for (size_t i = 0; i < COUNTOF(for_clients); i++) {
        expect(&p, 2, test_text("%.*s means nothing with --batch", (int)strcspn(for_clients[i], " "), for_clients[i]),
               "--model %s --batch %s --out %s %s", p.model, p.in, p.out, for_clients[i]);
    }
    CHECK(access(p.out, F_OK) != 0);
    expect(&p, 2, "--batch FILE goes with --out FILE", "--model %s --batch %s", p.model, p.in);
    expect(&p, 2, "--out FILE goes with --batch FILE", "--model %s --out %s", p.model, p.out);
    expect(&p, 1, "are the same file", "--model %s --batch %s --out %s", p.model, p.in, p.in);
    CHECK(link(p.in, p.out) == 0);
    expect(&p, 1, "are the same file", "--model %s --batch %s --out %s", p.model, p.in, p.out);
    CHECK(unlink(p.out) == 0);
    expect(&p, 1, "/dev/full is no regular file", "--model %s --batch %s --out /dev/full", p.model, p.in);
    expect(&p, 1, "is no regular file", "--model %s --batch %s --out %s", p.model, p.dir, p.out);
    expect(&p, 1, "nothing: No such file", "--model %s --batch %s/nothing --out %s/x", p.model, p.dir, p.dir);
    expect(&p, 1, "No such file", "--model %s --batch %s --out %s/no/x", p.model, p.in, p.dir);
}

TEST(batch_leaves_other_files_alone) {
    static const char *const others[] = {
        "precious notes", "precious\n", "{\"a\":1}\n", "[]\n",
        "{\"id\":\"batch_req_1\",\"custom_id\":null,\"response\":{},\"error\":null}\n"};
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    batch_put(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    batch_write(&p, &b);
    for (size_t i = 0; i < COUNTOF(others); i++) {
        test_write_file(p.out, others[i], strlen(others[i]));
        expect(&p, 1, "out.jsonl: line 1 is no result of a batch", "--model %s --batch %s --out %s", p.model, p.in,
               p.out);
        char *text = test_read_file(p.out, NULL);
        CHECK_MSG(!strcmp(text, others[i]), "%s", text);
        free(text);
    }
    CHECK(unlink(p.out) == 0);
    int fd = open(p.out, O_RDWR | O_CREAT, 0600);
    CHECK(flock(fd, LOCK_EX) == 0);
    expect(&p, 1, "is written by another process", "--model %s --batch %s --out %s", p.model, p.in, p.out);
    close(fd);
    CHECK(batch_to_its_end(&p, "", NULL) == 0);
    b = (Buffer){0};
    batch_put(&b, "other", "/tokenize", "{\"prompt\":\"x\"}");
    batch_write(&p, &b);
    expect(&p, 0, "1 results in", "--model %s --batch %s --out %s", p.model, p.in, p.out);
}

/* By the fingerprint; a chat's has the template's behind it. */
TEST(batch_goes_on_with_the_same_model) {
    static const char *const routes[][2] = {
        {"/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":1}"}};
    for (size_t i = 0; i < COUNTOF(routes); i++) {
        BatchPlace p = batch_place(CHECKPOINT_SMALL);
        Buffer b = {0};
        batch_put(&b, "a", routes[i][0], routes[i][1]);
        batch_write(&p, &b);
        CHECK(batch_to_its_end(&p, "--chat-template plain", NULL) == 0);
        expect(&p, 0, "fingerprint ", "--chat-template plain --model %s --batch %s --out %s", p.model, p.in, p.out);
        char *all = test_read_file(p.out, NULL), *other = strstr(all, "\"system_fingerprint\":\"");
        REQUIRE(other);
        other[strlen("\"system_fingerprint\":\"")] ^= 1; /* another hexadecimal digit, or a letter beyond */
        test_write_file(p.out, all, strlen(all));
        expect(&p, 1, "out.jsonl: line 1 was answered by ", "--chat-template plain --model %s --batch %s --out %s",
               p.model, p.in, p.out);
        char *now = test_read_file(p.out, NULL);
        CHECK(now && !strcmp(now, all));
        free(now);
        free(all);
    }
}

TEST(batch_draws_a_bar_on_a_terminal) {
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    char text[4096] = "";
    size_t n = 0;
    write_many(&p, 4, "");
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    BUG_ON(master < 0 || grantpt(master) || unlockpt(master));
    ioctl(master, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 80});
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const char *build = getenv("BUILD");
    const char *program = test_text("%s/noised", build ? build : "build");
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        if (dup2(slave, STDOUT_FILENO) < 0 || !freopen("/dev/null", "a", stderr)) _exit(127);
        execl(program, program, "--model", p.model, "--batch", p.in, "--out", p.out, "--threads", "1", (char *)NULL);
        _exit(127);
    }
    close(slave);
    for (ssize_t r; n < sizeof text - 1 && (r = read(master, text + n, sizeof text - 1 - n)) > 0;) n += (size_t)r;
    waitpid(pid, NULL, 0);
    close(master);
    CHECK_MSG(strstr(text, "\r\033[K[########################] 4/4 lines"), "%s", text);
    CHECK_MSG(strstr(text, "out.jsonl: 4 results, 0 of them errors"), "%s", text);
}
