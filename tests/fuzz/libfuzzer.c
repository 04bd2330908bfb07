/* The frame of build-fuzz/fuzz-NAME, in the place of tests/support/main.c: all targets are in one program, and its own
 * name says which of them libFuzzer is to run. */
#include "base/err.h"
#include "model/kernels/kernels.h"
#include "tests/fuzz/fuzz.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static TestCase *cases;
static int n_arguments;
static char **arguments;
static void (*running)(const uint8_t *data, size_t n);

int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*run)(const uint8_t *data, size_t n));

void test_register(TestCase *c) {
    c->next = cases;
    cases = c;
}

void test_fail(const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    abort();
}

int test_failures(void) { return 0; }
void test_skip(const char *reason) { fprintf(stderr, "skipped: %s\n", reason); }
void test_takes_long(void) {}

/* libFuzzer's own limit is by the clock, of which a busy machine takes as much as it likes. */
static int run(const uint8_t *data, size_t n) {
    static const double most = 5; /* seconds */
    double before = test_cpu_seconds();
    running(data, n);
    test_forget();
    double took = test_cpu_seconds() - before;
    CHECK_MSG(took < most, "%zu bytes took %.1f s of the processor", n, took);
    return 0;
}

void fuzz_run(const char *name, void (*target)(const uint8_t *data, size_t n)) {
    (void)name;
    running = target;
    atexit(test_remove_dirs);
    exit(LLVMFuzzerRunDriver(&n_arguments, &arguments, run));
}

int main(int argc, char **argv) {
    Err err;
    const char *slash = strrchr(argv[0], '/'), *dash = strchr(slash ? slash : argv[0], '-');
    n_arguments = argc;
    arguments = argv;
    if (kernels_init(&err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    for (TestCase *c = cases; c && dash; c = c->next)
        if (!strncmp(c->name, "fuzz_", 5) && !strcmp(c->name + 5, dash + 1)) c->run();
    fprintf(stderr, "%s: it is to be called fuzz-NAME after a target:", argv[0]);
    for (TestCase *c = cases; c; c = c->next) fprintf(stderr, " %s", c->name + 5);
    fprintf(stderr, "\n");
    return 2;
}
