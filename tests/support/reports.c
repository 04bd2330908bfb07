#include "tests/support/reports.h"

#include "tests/support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include "base/memory.h"

#include <dirent.h>
#include <sanitizer/common_interface_defs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
static const char variable[] = "TSAN_OPTIONS";
#else
static const char variable[] = "ASAN_OPTIONS";
#endif
static const char *folder;
static pid_t collector;

/* The suite ends by its own report: what is printed now is the last of its log. */
static void print_own(void) {
    char summary[256];
    if (getpid() != collector) return;
    while (reports_take(stdout, summary)) printf("failed: %s\n", summary);
    fflush(stdout);
}

void reports_collect(void) {
    const char *given = getenv(variable);
    folder = test_dir();
    collector = getpid();
    const char *path = test_text("%s/report", folder);
    BUG_ON(setenv(variable, test_text("%s:log_path=%s", given ? given : "", path), 1));
    __sanitizer_set_report_path(path);
    __sanitizer_set_death_callback(print_own);
}

void reports_to_stderr(void) { __sanitizer_set_report_path("stderr"); }

static bool take_file(const char *path, FILE *f, char summary[static 256]) {
    char *text = test_read_file(path, NULL);
    if (!text) return false;
    fputs(text, f);
    const char *last = strstr(text, "SUMMARY: ");
    snprintf(summary, 256, "%.*s", last ? (int)strcspn(last, "\n") : 80, last ? last : text);
    free(text);
    return remove(path) == 0;
}

bool reports_take(FILE *f, char summary[static 256]) {
    bool took = false;
    DIR *d = opendir(folder);
    BUG_ON(!d);
    for (struct dirent *e; !took && (e = readdir(d));) {
        took = e->d_name[0] != '.' && take_file(test_text("%s/%s", folder, e->d_name), f, summary);
    }
    closedir(d);
    return took;
}

#else

void reports_collect(void) {}

void reports_to_stderr(void) {}

bool reports_take(FILE *f, char summary[static 256]) {
    (void)f, (void)summary;
    return false;
}

#endif
