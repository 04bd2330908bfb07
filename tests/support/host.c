/* What a test takes of the machine: folders, files, time of the processor. */
#include "base/memory.h"
#include "tests/support/test.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct Kept {
    struct Kept *before;
    void *p;
    void (*drop)(void *p);
} Kept;

static Kept *kept, *dirs; /* the last one */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* tests have threads of their own */

/* By malloc, for tests take away the memory that xmalloc would give. */
static void keep(Kept **last, void *p, void (*drop)(void *p)) {
    Kept *k = malloc(sizeof *k);
    BUG_ON(!k);
    pthread_mutex_lock(&mutex);
    *k = (Kept){.before = *last, .p = p, .drop = drop};
    *last = k;
    pthread_mutex_unlock(&mutex);
}

static void forget(Kept **last) {
    for (Kept *k; (k = *last); free(k)) {
        *last = k->before;
        k->drop(k->p);
    }
}

void test_keep(void *p, void (*drop)(void *p)) { keep(&kept, p, drop); }

void test_drop(void *p) {
    Kept **at = &kept;
    pthread_mutex_lock(&mutex);
    while (*at && (*at)->p != p) at = &(*at)->before;
    Kept *k = *at;
    if (k) *at = k->before;
    pthread_mutex_unlock(&mutex);
    if (k) k->drop(p);
    free(k);
}

void test_forget(void) { forget(&kept); }

const char *test_text(const char *fmt, ...) {
    char *text;
    va_list ap;
    va_start(ap, fmt);
    BUG_ON(vasprintf(&text, fmt, ap) < 0);
    va_end(ap);
    test_keep(text, free);
    return text;
}

const char *test_shared(const char *path) {
    const char *full = test_text("../shared/data/%s", path);
    return access(full, R_OK) == 0 ? full : NULL;
}

int text_count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

char *test_read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *data = xmalloc((size_t)size + 1);
    size_t got = fread(data, 1, (size_t)size, f);
    fclose(f);
    data[got] = 0;
    if (n) *n = got;
    return data;
}

void test_write_file(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    BUG_ON(!f);
    BUG_ON(n > 0 && fwrite(data, 1, n, f) != n);
    BUG_ON(fclose(f));
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int remove_all(const char *path) { return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

void test_remove(const char *path) {
    CHECK_MSG(remove_all(path) == 0 || errno == ENOENT, "%s: %s", path, strerror(errno));
}

static void remove_dir(void *path) {
    remove_all(path);
    free(path);
}

const char *test_dir(void) {
    const char *system = getenv("TMPDIR");
    char *path;
    BUG_ON(asprintf(&path, "%s/noised-test-XXXXXX", system ? system : "/tmp") < 0 || !mkdtemp(path));
    keep(&dirs, path, remove_dir);
    return path;
}

void test_remove_dirs(void) { forget(&dirs); }

static struct {
    const char *name; /* NULL: nothing to be put back */
    char *before;     /* NULL: it was not set */
} env;

static void put(const char *name, const char *value) { BUG_ON(value ? setenv(name, value, 1) : unsetenv(name)); }

void test_env(const char *name, const char *value) {
    if (!env.name) {
        const char *before = getenv(name);
        env.before = before ? xstrdup(before) : NULL;
        env.name = name;
    }
    BUG_ON(strcmp(name, env.name) != 0);
    put(name, value);
}

void test_env_back(void) {
    if (env.name) put(env.name, env.before);
    free(env.before);
    env.name = env.before = NULL;
}

double test_cpu_seconds(void) {
    struct timespec t;
    BUG_ON(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t));
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
