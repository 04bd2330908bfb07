#include "base/log.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What `write` sends to stderr, malloc'ed. */
static char *caught(void (*write)(void)) {
    char *dir = test_dir(), path[256];
    snprintf(path, sizeof path, "%s/log", dir);
    free(dir);
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

enum { FLOOD = 5000 };

static void flood(void) {
    for (int i = 0; i <= FLOOD; i++) {
        if (i == FLOOD) usleep(1500000 / LOG_RATE);
        log_line("flood %s", "\xC2\x9B");
    }
    log_line("another kind");
}

TEST(log_floods_are_cut_and_counted) {
    uint64_t before = log_dropped();
    char *text = caught(flood);
    REQUIRE(text);
    int lines = count(text, "flood ?"), dropped = (int)(log_dropped() - before);
    CHECK_MSG(lines >= LOG_BURST && lines < LOG_BURST + 100, "%d lines", lines);
    CHECK(count(text, "\xC2") == 0);
    CHECK_MSG(count(text, "another kind") == 1, "one kind hides another");
    CHECK_MSG(count(text, "lines like this were left out") >= 1, "%s", text + strlen(text) - 200);
    CHECK_MSG(dropped > 0 && dropped == FLOOD + 1 - lines, "%d dropped, %d lines", dropped, lines);
    free(text);
}
