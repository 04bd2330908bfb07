/* The test frame: every tests/test_*.c registers cases with TEST(); build/run-tests runs all of them, or those whose
 * name contains one of its arguments or whose file's path begins with one, and ends with what failed and the plain line
 * "N passed, N failed[, N skipped]".
 *
 *     TEST(philox_known_answer) { CHECK(philox4x32(0, 0, 0, 0, 0).v[0] == 0x6627e8d5); }
 *
 * A failed CHECK reports and goes on; REQUIRE reports and leaves the case; SKIP leaves it as skipped with a reason
 * (only for what is outside the project: a data folder, python3-torch). */
#ifndef NOISED_TEST_H
#define NOISED_TEST_H

#include "base/err.h"

typedef struct TestCase {
    const char *name, *file;
    void (*run)(void);
    char *failure; /* the first, told again at the end */
    struct TestCase *next;
} TestCase;

/* Whether a sanitizer is built in, and how many times longer than the ordinary build it may take for what it computes.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, SLOWNESS = 8 };
#else
enum { SANITIZED = 0, SLOWNESS = 1 };
#endif

/* How many of n rounds are made: all, or what a sanitizer does in the same time, which sees what is wrong in the first
 * of them. For rounds that draw or measure anew, not for those that have to meet every case. */
#define FEWER(n) (((n) + SLOWNESS - 1) / SLOWNESS)

/* Seconds for which a test waits for what has to come. Machines stall, so it is no bound on anything: what a test
 * bounds is time of the processor (test_cpu_seconds, daemon_cpu_seconds), or is measured again while it is beyond the
 * bound, TRIES times. */
enum { PATIENCE = 60 * SLOWNESS, TRIES = 10 };

void test_register(TestCase *c);
void test_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void test_skip(const char *reason);
int test_failures(void); /* of the case that runs */

/* A case that runs for five minutes (a sanitizer's build: SLOWNESS times that) is taken for hanging and ends the run by
 * its name, unless it has called this. */
void test_takes_long(void);

/* Seconds of processor that this process has taken: what a bound on its own work is held against, for on a busy machine
 * the clock says nothing of it. */
double test_cpu_seconds(void);

/* Drops p when the case ends, or before. */
void test_keep(void *p, void (*drop)(void *p));
void test_drop(void *p);
void test_forget(void); /* the frame's, behind each case */
/* A printed string, which is there until the case ends. */
const char *test_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int text_count(const char *text, const char *what); /* occurrences */
/* A fresh directory below the system's temporary folder, removed when the run ends, and the string with it. */
const char *test_dir(void);
void test_remove_dirs(void); /* the frame's, at the end */
/* A file, or a directory with all that is in it; nothing where nothing is. */
void test_remove(const char *path);
/* path inside ../shared/data when that exists beside the checkout, else NULL. */
const char *test_shared(const char *path);
/* Whole file, malloc'ed and NUL-terminated; NULL when it cannot be read. */
char *test_read_file(const char *path, size_t *n);
void test_write_file(const char *path, const void *data, size_t n);

/* Sets a variable of the environment, or with NULL takes it away, until test_env_back: the frame calls that when a case
 * ends. One variable at a time. */
void test_env(const char *name, const char *value);
void test_env_back(void);

#define TEST(id)                                                                                                       \
    static void test_##id(void);                                                                                       \
    static TestCase case_##id = {.name = #id, .file = __FILE__, .run = test_##id};                                     \
    __attribute__((constructor)) static void register_##id(void) { test_register(&case_##id); }                        \
    static void test_##id(void)

#define CHECK(cond) ((cond) ? (void)0 : test_fail(__FILE__, __LINE__, "%s", #cond))
#define CHECK_MSG(cond, ...) ((cond) ? (void)0 : test_fail(__FILE__, __LINE__, __VA_ARGS__))
#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            test_fail(__FILE__, __LINE__, "%s", #cond);                                                                \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)
#define SKIP(reason)                                                                                                   \
    do {                                                                                                               \
        test_skip(reason);                                                                                             \
        return;                                                                                                        \
    } while (0)

#endif
