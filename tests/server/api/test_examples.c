/* The programs in examples/, each against a daemon: all of them print the text of the plain answer. */
#include "model/kernels/kernels.h"
#include "tests/support/http_client.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static bool has(const char *what) { return system(test_text("{ %s; } >/dev/null 2>&1", what)) == 0; }

/* What a shell command prints, malloc'ed; its exit status. */
static char *printed(const char *command, int *status) {
    enum { MOST = 16384 };
    char *text = calloc(1, MOST), line[1024];
    snprintf(line, sizeof line, "{ %s; } 2>&1", command);
    fflush(stdout);
    FILE *f = popen(line, "r");
    if (f && fread(text, 1, MOST - 1, f) == 0) text[0] = 0;
    int rc = f ? pclose(f) : -1;
    *status = WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
    return text;
}

/* command: a shell's, to which the daemon's address is added. */
static void prints_the_answer(const char *command) {
    Daemon d;
    REQUIRE(daemon_start_at(&d, "weights/demo", NULL));
    Answer a =
        http_post(&d, "/v1/completions", "{\"prompt\":\"It was\",\"max_tokens\":40,\"seed\":7,\"noise_seed\":1}");
    char line[512], expected[1024];
    int status;
    snprintf(line, sizeof line, "%s http://127.0.0.1:%d", command, d.port);
    snprintf(expected, sizeof expected, "%s\n", answer_text(&a, 0));
    CHECK(strlen(expected) > 40);
    char *text = printed(line, &status);
    CHECK_MSG(status == 0 && !strcmp(text, expected), "%s: %d\n%s\nnot\n%s", line, status, text, expected);
    free(text);
    daemon_stop(&d);
}

TEST(examples_python) {
    if (!has("python3 --version")) SKIP("needs python3");
    prints_the_answer("python3 examples/stream.py");
}

TEST(examples_python_openai) {
    if (!has("python3 -c 'import openai'")) SKIP("needs the openai package of Python");
    prints_the_answer("python3 examples/openai_stream.py");
}

TEST(examples_javascript) {
    if (!has("node --version")) SKIP("needs node");
    prints_the_answer("node examples/stream.mjs");
}

/* A module finds packages beside itself or above, so a copy goes where `make test-clients` has put them. */
TEST(examples_javascript_openai) {
    if (!has("node --version && test -d ${BUILD:-build}/clients/node_modules/openai"))
        SKIP("needs node and the openai package that make test-clients installs");
    prints_the_answer("cp examples/openai_stream.mjs ${BUILD:-build}/clients && "
                      "node ${BUILD:-build}/clients/openai_stream.mjs");
}

TEST(examples_c) {
    const char *dir = test_dir();
    prints_the_answer(test_text(
        "cc -Wall -Wextra -Werror examples/complete.c -o %s/complete -lcurl -lcjson && %s/complete", dir, dir));
}

TEST(examples_shell) { prints_the_answer("examples/stream.sh"); }

/* With strong noise a text of 64 tokens tells its seed from 15 others far oftener than by chance, which is wrong in
 * 94%. */
TEST(examples_provenance) {
    if (!has("python3 --version")) SKIP("needs python3");
    if (SANITIZED) SKIP("asks the daemon what the tests of /v1/score ask it");
    Daemon d;
    int status;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    char *text = printed(test_text("python3 examples/provenance.py http://127.0.0.1:%d 8", d.port), &status),
         *last = strstr(text, "64 tokens:");
    CHECK_MSG(status == 0 && strstr(text, "128 texts, 16 noise_seeds") && last && atoi(last + 10) < 50, "%s", text);
    free(text);
    daemon_stop(&d);
}

/* The bits on the page are those of every kernel family but amx; ref would take minutes. */
TEST(examples_walk_prints_what_the_page_shows) {
    if (!has("python3 --version")) SKIP("needs python3");
    if (SANITIZED) SKIP("asks the daemon what its own tests ask it");
    const Kernels *all[KERNELS_LEVELS];
    int n = kernels_available(all), status;
    if (!strcmp(all[n - 1]->name, "amx")) n--;
    test_env("NOISED_ISA", all[n - 1]->name);
    Daemon d;
    REQUIRE(daemon_start_at(&d, "weights/demo", NULL));
    char *text =
        printed(test_text("python3 scripts/notebook.py docs/walk-seeds.md http://127.0.0.1:%d", d.port), &status);
    CHECK_MSG(status == 0, "%s", text);
    free(text);
    daemon_stop(&d);
}

/* A server that is killed while it answers, of which `other` goes on to the same bytes. False when it was faster. */
static bool goes_on_at(const Daemon *other, const char *command) {
    Daemon first;
    if (!daemon_start_at(&first, "weights/demo", NULL)) return false;
    char line[256], *text = calloc(1, 1 << 16);
    size_t n = 0, got;
    snprintf(line, sizeof line, "%s http://127.0.0.1:%d http://127.0.0.1:%d 2>&1", command, first.port, other->port);
    fflush(stdout);
    FILE *f = popen(line, "r");
    BUG_ON(!f);
    for (int c; n < 40 && (c = fgetc(f)) != EOF;) text[n++] = (char)c;
    kill(first.pid, SIGKILL);
    while ((got = fread(text + n, 1, (1 << 16) - 1 - n, f)) > 0) n += got;
    CHECK(pclose(f) == 0);
    char *note = strstr(text, "http://"), *end = note ? strchr(note, '\n') : NULL;
    bool cut_off = note && end;
    while (note && end) {
        memmove(note, end + 1, strlen(end + 1) + 1);
        note = strstr(text, "http://");
        end = note ? strchr(note, '\n') : NULL;
    }
    Answer a = http_post(other, "/v1/completions",
                         "{\"prompt\":\"It was\",\"max_tokens\":400,\"seed\":7,\"noise_seed\":1,\"ignore_eos\":true}");
    const char *whole = answer_text(&a, 0);
    CHECK_MSG(!strncmp(text, whole, strlen(whole)) && !strcmp(text + strlen(whole), "\n"), "%s\nnot\n%s", text, whole);
    free(text);
    waitpid(first.pid, NULL, 0);
    fclose(first.output);
    return cut_off;
}

static void goes_on_elsewhere(const char *command) {
    Daemon other;
    bool cut_off = false;
    REQUIRE(daemon_start_at(&other, "weights/demo", NULL));
    for (int try = 0; try < TRIES && !cut_off; try++) cut_off = goes_on_at(&other, command);
    CHECK_MSG(cut_off, "nothing was cut off");
    daemon_stop(&other);
}

TEST(examples_failover_python) {
    if (!has("python3 --version")) SKIP("needs python3");
    if (SANITIZED) SKIP("asks the daemon what the tests of takeovers ask it");
    goes_on_elsewhere("python3 examples/failover.py");
}

TEST(examples_failover_javascript) {
    if (!has("node --version")) SKIP("needs node");
    if (SANITIZED) SKIP("asks the daemon what the tests of takeovers ask it");
    goes_on_elsewhere("node examples/failover.mjs");
}
