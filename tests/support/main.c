#include "base/clock.h"
#include "base/err.h"
#include "base/macros.h"
#include "base/memory.h"
#include "base/omp_env.h"
#include "model/kernels/kernels.h"
#include "tests/support/reports.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static TestCase *cases, *running;
static int failures_here;
static const char *skip_reason;

void test_register(TestCase *c) {
    TestCase **p = &cases;
    while (*p && strcmp((*p)->name, c->name) < 0) p = &(*p)->next;
    c->next = *p;
    *p = c;
}

/* Tests have threads of their own. */
void test_fail(const char *file, int line, const char *fmt, ...) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&mutex);
    if (++failures_here <= 10) printf("  %s:%d: %s\n", file, line, text);
    if (failures_here == 1) BUG_ON(asprintf(&running->failure, "%s:%d: %s", file, line, text) < 0);
    pthread_mutex_unlock(&mutex);
}

int test_failures(void) { return failures_here; }

void test_skip(const char *reason) { skip_reason = reason; }

static bool is_named(const TestCase *c, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strstr(c->name, argv[i]) || !strncmp(c->file, argv[i], strlen(argv[i]))) return true;
    return argc == 1;
}

/* SHARE=1/3: of the tests that are named the first, the fourth, ...: three runs make a whole. */
static bool wanted(const TestCase *c, int argc, char **argv) {
    static int met;
    int share = 1, of = 1;
    const char *given = getenv("SHARE");
    if (given && (sscanf(given, "%d/%d", &share, &of) != 2 || share < 1 || share > of)) {
        printf("SHARE is \"%s\", must be 1/3 or such\n", given);
        exit(2);
    }
    return is_named(c, argc, argv) && met++ % of == share - 1;
}

enum { STUCK_SECONDS = 300 * SLOWNESS };

static void stuck(int signal) {
    (void)signal;
    static const char before[] = "FAIL ", after[] = " hangs\n";
    if (write(1, before, sizeof before - 1) < 0 || write(1, running->name, strlen(running->name)) < 0 ||
        write(1, after, sizeof after - 1) < 0)
        _exit(3);
    _exit(1);
}

void test_takes_long(void) { alarm(0); }

/* Of processors, that this process and the programs it has waited for have taken. */
static double spent_seconds(void) {
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double s = 0;
    for (size_t i = 0; i < COUNTOF(whose); i++) {
        struct rusage u;
        BUG_ON(getrusage(whose[i], &u));
        s += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    }
    return s;
}

static void fail_by_reports(void) {
    char summary[256];
    while (reports_take(stdout, summary)) test_fail(__FILE__, __LINE__, "%s", summary);
}

/* Whoever sees the end of a log sees what failed. */
static void print_failures(void) {
    for (TestCase *c = cases; c; c = c->next) {
        if (!c->failure) continue;
        printf("failed: %s: %s\n", c->name, c->failure);
        free(c->failure);
    }
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0, skipped = 0;
    Err err;
    runtime_tune(argv);
    /* The programs under test do so themselves. */
    unsetenv("GOMP_SPINCOUNT");
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    signal(SIGALRM, stuck);
    signal(SIGINT, SIG_DFL); /* a shell's background jobs ignore it, and a shell below them could not trap it */
    unsetenv("MAKEFLAGS");   /* a make below a test would miss the job server of the make above, and say so */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (kernels_init(&err)) {
        printf("%s\n", err.msg);
        return 2;
    }
    reports_collect();
    for (TestCase *c = cases; c; c = c->next) {
        if (!wanted(c, argc, argv)) continue;
        failures_here = 0;
        skip_reason = NULL;
        running = c;
        alarm(STUCK_SECONDS);
        double t0 = now_seconds(), spent0 = spent_seconds();
        c->run();
        test_env_back();
        test_forget();
        double t = now_seconds() - t0, spent = spent_seconds() - spent0;
        fail_by_reports();
        if (failures_here) {
            failed++;
            printf("FAIL %s (%.2f s, processors %.2f)\n", c->name, t, spent);
        } else if (skip_reason) {
            skipped++;
            printf("skip %s: %s\n", c->name, skip_reason);
        } else {
            passed++;
            printf("ok   %s (%.2f s, processors %.2f)\n", c->name, t, spent);
        }
    }
    alarm(0);
    reports_to_stderr();
    test_remove_dirs();
    print_failures();
    if (skipped)
        printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    else
        printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
