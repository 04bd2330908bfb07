/* Folders with names up to the longest whose files can be named, and beyond: what is written there can be read, what
 * does not fit is refused by name, and nothing of it stays. */
#include "base/err.h"
#include "base/files.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All that are written and read have shorter names, the ending of an unfinished folder in front of them included. */
enum { BELOW = 48, ABOVE = 2 };

/* A folder in dir whose files' names are nearly as long as they may be. */
static void make_deep(char deep[2 * PATH_BYTES], const char *dir) {
    enum { PART = 150 };
    size_t n = (size_t)sprintf(deep, "%s", dir);
    while (n + PART + 1 < PATH_BYTES - BELOW - 1) {
        deep[n++] = '/';
        memset(deep + n, 'd', PART);
        deep[n += PART] = 0;
        REQUIRE(mkdir(deep, 0700) == 0);
    }
}

/* deep and behind it a name, so many bytes together. */
static void name_of_length(char name[2 * PATH_BYTES], const char *deep, size_t length) {
    memset(name, 'x', length);
    memcpy(name, deep, strlen(deep));
    name[strlen(deep)] = '/';
    name[length] = 0;
}

static void clear(const char *dir) { CHECK(system(test_text("rm -rf %s", dir)) == 0); }

/* Done, or refused for the length alone. */
static bool is_done(int rc, const Err *err, const char *what, size_t length) {
    CHECK_MSG(rc == 0 || strstr(err->msg, "the path is too long"), "%s, %zu bytes: %s", what, length, err->msg);
    return rc == 0;
}

static bool opens(const char *dir, size_t length) {
    Checkpoint c;
    Err err;
    bool done = is_done(checkpoint_open(&c, dir, &err), &err, "open", length);
    if (done) checkpoint_close(&c);
    return done;
}

TEST(checkpoint_in_folders_with_long_names) {
    char deep[2 * PATH_BYTES], name[2 * PATH_BYTES], unfinished[3 * PATH_BYTES], home[300], back[300];
    const char *dir = test_dir();
    int read = 0, written = 0;
    Err err;
    snprintf(home, sizeof home, "%s/home", dir);
    snprintf(back, sizeof back, "%s/back", dir);
    REQUIRE(test_checkpoint_write(home, CHECKPOINT_SMALL, 1));
    test_write_text(home, "generation_config.json", "{\"temperature\":0.5}");
    test_write_text(home, "special_tokens_map.json", "{}");
    make_deep(deep, dir);
    for (size_t length = PATH_BYTES - BELOW; length <= PATH_BYTES + ABOVE; length++) {
        name_of_length(name, deep, length);
        snprintf(unfinished, sizeof unfinished, "%s.unfinished", name);
        bool wrote = is_done(test_convert(home, name, NULL, &err), &err, "convert into", length);
        CHECK_MSG(wrote ? opens(name, length) : access(name, F_OK) != 0, "%zu bytes", length);
        CHECK_MSG(access(unfinished, F_OK) != 0, "%zu bytes: an unfinished folder is left", length);
        clear(name);
        REQUIRE(rename(home, name) == 0);
        bool opened = opens(name, length);
        CHECK(is_done(test_convert(name, back, NULL, &err), &err, "convert from", length) == opened);
        REQUIRE(rename(name, home) == 0);
        clear(back);
        written += wrote, read += opened;
    }
    CHECK_MSG(written > 0 && written < read && read < BELOW, "%d written, %d read", written, read);
}
