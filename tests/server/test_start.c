/* How the daemon starts: what it is called, what it says when it cannot, and what a signal does before it is ready. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_failure(const char *options, const char *message) {
    char *errors;
    int status = daemon_run(options, &errors);
    CHECK_MSG(status == 1 && strstr(errors, message), "%s: %d %s", options, status, errors);
    free(errors);
}

TEST(start_finds_a_busy_port_before_it_loads) {
    Daemon d;
    if (!daemon_start(&d, CHECKPOINT_SMALL, NULL)) return;
    expect_failure(test_text("--model /proc/no/model --port %d", d.port), "cannot listen on 127.0.0.1 port");
    daemon_stop(&d);
    expect_failure("--model /proc/no/model --port 0", "/proc/no/model");
}

/* 16 TiB of cache. */
TEST(start_refuses_more_memory_than_there_is) {
    const char *dir = test_dir();
    Config c = test_config(attention_kind_find("symmetric"));
    c.vocab_size = TEST_VOCAB;
    c.n_layers = 8;
    c.n_heads = c.n_kv_heads = 16;
    c.head_dim = 16;
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 1));
    const char *options = test_text("--port 0 --kv-tokens 1073741824 --model %s", dir);
    expect_failure(options, "cache of up to 1073741824 tokens in F32, ");
    expect_failure(options, " TiB once it is full");
    expect_failure(options, "left: a smaller --kv-tokens takes less");
}

TEST(start_refuses_bodies_that_never_fit) {
    expect_failure(test_text("--port 0 --max-bodies 1024 --model %s", test_checkpoint(CHECKPOINT_SMALL)),
                   "--max-bodies is 1024, less than one body may have: --max-body is 262144");
}

/* A long model's context may be shorter here; what fits has the same bytes. */
static void check_shortened(const char *by) {
    Daemon whole, d;
    static const char request[] = "{\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":2,\"max_tokens\":16}";
    REQUIRE(daemon_start(&whole, CHECKPOINT_SMALL, NULL) && daemon_start(&d, CHECKPOINT_SMALL, by));
    Answer a = http_get(&d, "/props");
    CHECK_MSG(json_number(a.json, "default_generation_settings.n_ctx") == 64, "%s", a.body);
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"The river\",\"max_tokens\":-1,\"ignore_eos\":true}");
    CHECK_MSG(json_number(a.json, "usage.total_tokens") == 65, "%s", a.body);
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"The river\",\"max_tokens\":64}");
    answer_check_error(&a, 400, "max_tokens", "behind the context");
    a = http_post(&d, "/v1/completions", request);
    Answer b = http_post(&whole, "/v1/completions", request);
    CHECK_MSG(*answer_text(&a, 0) && !strcmp(answer_text(&a, 0), answer_text(&b, 0)), "%s\n%s", a.body, b.body);
    daemon_stop(&d);
    daemon_stop(&whole);
}

TEST(start_shortens_the_context) {
    check_shortened("--context 64");
    check_shortened("--kv-tokens 64"); /* a cache of so many holds no more */
    expect_failure(test_text("--port 0 --context 513 --model %s", test_checkpoint(CHECKPOINT_SMALL)),
                   "--context is 513, max_position_embeddings of ");
}

static void check_name(const char *dir, const char *name) {
    Daemon d;
    if (!daemon_start_at(&d, dir, NULL)) return;
    Answer a = http_get(&d, "/v1/models");
    CHECK_MSG(a.status == 200 && strstr(a.body, test_text("\"id\":\"%s\"", name)), "%s: %s", dir, a.body);
    daemon_stop(&d);
}

TEST(start_names_the_model_as_it_was_given) {
    const char *dir = test_dir();
    const char *path = test_text("%s/current", dir);
    REQUIRE(symlink(test_checkpoint(CHECKPOINT_SMALL), path) == 0);
    check_name(path, "current");
    check_name(test_text("%s//", path), "current");
    check_name(test_text("%s//.", path), "tiny");
}

/* What could never match, or is no address, is said before anything is loaded. */
TEST(start_refuses_what_has_no_effect) {
    static const struct {
        const char *options, *says;
        int status;
    } cases[] = {
        {"--cors-origin https://app.example/", "--cors-origin is \"https://app.example/\", must be", 2},
        {"--cors-origin app.example", "--cors-origin is \"app.example\"", 2},
        {"--allowed-host models.example:8080", "--allowed-host is \"models.example:8080\", must be a name", 2},
        {"--allowed-host http://models.example", "--allowed-host is", 2},
        {"--host [::1]", "--host is \"[::1]\", must be a name or an address", 2},
        {"--host unix:/tmp/x", "--host is \"unix:/tmp/x\"", 2},
        {"--host 0.0.0.0", "is open to others", 2},
        {"--probe http://127.0.0.1:83716/health", "malformed port", 1},
        {"--probe http://127.0.0.1:99999/health", "malformed port", 1},
    };
    char *errors;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        int status =
            daemon_run(test_text("--model %s %s", test_checkpoint(CHECKPOINT_SMALL), cases[i].options), &errors);
        CHECK_MSG(status == cases[i].status && strstr(errors, cases[i].says), "%s: %d %s", cases[i].options, status,
                  errors);
        free(errors);
    }
    const char *dir = test_dir();
    char keys[256];
    keys_write(keys, dir, "sesame-sesame-sesame   trailing\n");
    CHECK(daemon_run(test_text("--model %s --port 0 --api-key-file %s", test_checkpoint(CHECKPOINT_SMALL), keys),
                     &errors) == 1 &&
          strstr(errors, "without further spaces"));
    free(errors);
}

/* The name that ps and top show. */
static bool is_called(pid_t pid, const char *name) {
    char comm[32] = "";
    FILE *f = fopen(test_text("/proc/%d/comm", (int)pid), "r");
    bool read = f && fgets(comm, sizeof comm, f);
    if (f) fclose(f);
    comm[strcspn(comm, "\n")] = 0;
    return read && !strcmp(comm, name);
}

TEST(start_processes_have_their_names) {
    Daemon d;
    if (!daemon_start(&d, CHECKPOINT_SMALL, NULL)) return;
    CHECK(is_called(d.pid, "noised"));
    daemon_stop(&d);
}

TEST(start_is_not_harmed_by_harmless_signals) {
    static const int harmless[] = {SIGUSR1, SIGUSR2, SIGPIPE, SIGWINCH, SIGCONT, SIGURG, SIGCHLD};
    Daemon d;
    if (!daemon_start(&d, CHECKPOINT_SMALL, NULL)) return;
    for (size_t i = 0; i < COUNTOF(harmless); i++) {
        kill(d.pid, harmless[i]);
        Answer a = http_get(&d, "/health");
        CHECK_MSG(a.status == 200, "signal %d: %d", harmless[i], a.status);
    }
    daemon_stop(&d);
}

/* Its stderr when SIGTERM waits for it from the very start. */
static char *stopped_at_start(const char *dir, int *status) {
    const char *folder = test_dir();
    const char *build = getenv("BUILD");
    const char *path = test_text("%s/stderr", folder);
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        sigprocmask(SIG_BLOCK, &term, NULL); /* both survive exec: the mask and what is pending */
        raise(SIGTERM);
        const char *program = test_text("%s/noised", build ? build : "build");
        if (!freopen(path, "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(127);
        execl(program, program, "--model", dir, "--port", "0", "--prefill-chunk", "8192", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, status, 0);
    char *text = test_read_file(path, NULL);
    return text ? text : xstrdup("");
}

TEST(start_is_ended_at_once_by_sigterm) {
    int status;
    char *errors = stopped_at_start(test_checkpoint(CHECKPOINT_SLOW), &status);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    CHECK_MSG(strstr(errors, "stopped before it was ready") && !strstr(errors, "draining"), "%s", errors);
    free(errors);
}
