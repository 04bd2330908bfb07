#include "tests/support/reports.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BEYOND = 16 };

static char *shared;

static void *write_beyond(void *arg) {
    (void)arg;
    for (int i = 0; i < 1000; i++) shared[BEYOND]++;
    return NULL;
}

/* A write outside of what is allocated, by two threads at once: each sanitizer has its part. */
static void do_wrong(void) {
    pthread_t other;
    shared = malloc(BEYOND);
    BUG_ON(pthread_create(&other, NULL, write_beyond, NULL));
    write_beyond(NULL);
    pthread_join(other, NULL);
}

TEST(reports_of_a_killed_child_are_found) {
    if (!SANITIZED) SKIP("needs SAN=address or SAN=thread");
    char summary[256] = "", *text = NULL;
    size_t n;
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        do_wrong();
        kill(getpid(), SIGKILL);
    }
    waitpid(pid, NULL, 0);
    FILE *f = open_memstream(&text, &n);
    CHECK(reports_take(f, summary));
    fclose(f);
    CHECK_MSG(strstr(summary, "write_beyond") && strstr(text, "test_reports.c"), "%s", summary);
    free(text);
}
