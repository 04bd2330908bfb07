/* fuzz_run in build/run-tests: what libFuzzer has left behind, once. */
#include "base/memory.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Exactly as long as it is, so that the address sanitizer sees a byte too many. */
static void run_file(const char *path, void (*target)(const uint8_t *data, size_t n)) {
    size_t n;
    int before = test_failures();
    char *text = test_read_file(path, &n);
    REQUIRE(text);
    uint8_t *data = xmalloc(n);
    memcpy(data, text, n);
    free(text);
    target(data, n);
    free(data);
    if (test_failures() > before) printf("  with %s\n", path);
}

static int run_folder(const char *folder, const char *name, void (*target)(const uint8_t *data, size_t n)) {
    char dir[256], path[600];
    struct dirent **entries;
    snprintf(dir, sizeof dir, "tests/fuzz/%s/%s", folder, name);
    int n = scandir(dir, &entries, NULL, alphasort), files = 0;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') run_file(path, target), files++;
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return files;
}

void fuzz_run(const char *name, void (*target)(const uint8_t *data, size_t n)) {
    run_folder("found", name, target);
    CHECK(run_folder("corpus", name, target) > 0);
}
