/* The programs in examples/, each against a daemon: all of them print the text of the plain answer. */
#include "model/kernels/kernels.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static bool has(const char *what) {
    char line[256];
    snprintf(line, sizeof line, "{ %s; } >/dev/null 2>&1", what);
    return system(line) == 0;
}

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
    answer_free(&a);
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
    char *dir = test_dir(), command[512];
    snprintf(command, sizeof command,
             "cc -Wall -Wextra -Werror examples/complete.c -o %s/complete -lcurl -lcjson && %s/complete", dir, dir);
    prints_the_answer(command);
    free(dir);
}

TEST(examples_shell) { prints_the_answer("examples/stream.sh"); }

/* The bits on the page are those of every kernel family but amx; ref would take minutes. */
TEST(examples_walk_prints_what_the_page_shows) {
    if (!has("python3 --version")) SKIP("needs python3");
    const Kernels *all[KERNELS_LEVELS];
    int n = kernels_available(all), status;
    if (!strcmp(all[n - 1]->name, "amx")) n--;
    char *isa = getenv("NOISED_ISA") ? strdup(getenv("NOISED_ISA")) : NULL, line[256];
    setenv("NOISED_ISA", all[n - 1]->name, 1);
    Daemon d;
    bool up = daemon_start_at(&d, "weights/demo", NULL);
    if (isa)
        setenv("NOISED_ISA", isa, 1);
    else
        unsetenv("NOISED_ISA");
    free(isa);
    REQUIRE(up);
    snprintf(line, sizeof line, "python3 scripts/notebook.py docs/walk-seeds.md http://127.0.0.1:%d", d.port);
    char *text = printed(line, &status);
    CHECK_MSG(status == 0, "%s", text);
    free(text);
    daemon_stop(&d);
}
