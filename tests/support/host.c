/* What a test takes of the machine: folders, files, time of the processor. */
#include "base/memory.h"
#include "tests/support/test.h"

#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int n_dirs;
static char **dirs;

char *test_dir(void) {
    const char *system = getenv("TMPDIR");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/noised-test-XXXXXX", system ? system : "/tmp");
    BUG_ON(!mkdtemp(path));
    dirs = xrealloc(dirs, ((size_t)n_dirs + 1) * sizeof *dirs);
    return xstrdup(dirs[n_dirs++] = xstrdup(path));
}

char *test_shared(const char *path) {
    char full[1024];
    snprintf(full, sizeof full, "../shared/data/%s", path);
    return access(full, R_OK) == 0 ? xstrdup(full) : NULL;
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

void test_remove_dirs(void) {
    for (int i = 0; i < n_dirs; i++) {
        nftw(dirs[i], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(dirs[i]);
    }
    free(dirs);
    dirs = NULL;
    n_dirs = 0;
}

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
