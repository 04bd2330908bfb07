/* Paths, small files and folders: what is refused, by name, and what a refusal leaves behind. */
#include "base/files.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(files_join_as_far_as_a_path_goes) {
    char out[PATH_BYTES], name[PATH_BYTES];
    Err err;
    CHECK(path_join(out, "a", "b", &err) == 0 && !strcmp(out, "a/b"));
    memset(name, 'x', sizeof name);
    for (size_t length = PATH_BYTES - 3; length <= PATH_BYTES - 2; length++) {
        name[length] = 0;
        bool fits = length + 2 < PATH_BYTES;
        CHECK_MSG((path_join(out, "a", name, &err) == 0) == fits, "%zu", length);
        CHECK(fits ? strlen(out) == length + 2 : strstr(err.msg, "the path is too long") != NULL);
        name[length] = 'x';
    }
}

TEST(files_read_whole_or_not_at_all) {
    const char *dir = test_dir();
    char path[PATH_BYTES], pipe[PATH_BYTES];
    size_t n;
    Err err;
    snprintf(path, sizeof path, "%s/x", dir);
    snprintf(pipe, sizeof pipe, "%s/pipe", dir);
    CHECK(!file_read(path, 4, &n, &err) && strstr(err.msg, path) && strstr(err.msg, strerror(ENOENT)));
    CHECK(!file_read(dir, 4, &n, &err) && strstr(err.msg, "not a regular file"));
    CHECK(mkfifo(pipe, 0600) == 0 && !file_read(pipe, 4, &n, &err) && strstr(err.msg, "not a regular file"));
    test_write_file(path, "four", 4);
    char *data = file_read(path, 4, &n, &err);
    CHECK(data && n == 4 && !memcmp(data, "four", 5));
    free(data);
    CHECK(!file_read(path, 3, &n, &err));
    CHECK_MSG(strstr(err.msg, path) && strstr(err.msg, ": 4 bytes, at most 3 are read"), "%s", err.msg);
    test_write_file(path, "", 0);
    data = file_read(path, 0, &n, &err);
    CHECK(data && n == 0 && !*data);
    free(data);
}

TEST(folders_are_made_on_the_way_and_taken_back) {
    const char *dir = test_dir();
    char path[PATH_BYTES], file[PATH_BYTES];
    int made = -1;
    struct stat st;
    Err err;
    snprintf(path, sizeof path, "%s/a//b/c/", dir);
    CHECK_MSG(folder_create(path, &made, &err) == 0 && made == 3, "%d", made);
    CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(folder_create(path, &made, &err) == 0 && made == 0 && folder_create(path, NULL, &err) == 0);
    snprintf(file, sizeof file, "%s/a/x", dir);
    test_write_file(file, "x", 1);
    folder_remove(path, 3); /* but for what is not empty */
    CHECK(access(test_text("%s/a/b", dir), F_OK) && access(file, F_OK) == 0);
    /* A file is in the way: what was made before it goes, what others made stays. */
    CHECK(folder_create(test_text("%s/y", file), &made, &err) == -1 && made == 0);
    CHECK_MSG(strstr(err.msg, file) && strstr(err.msg, strerror(EEXIST)), "%s", err.msg);
    CHECK(folder_create("", &made, &err) == -1 && strstr(err.msg, "the name of a folder is empty"));
    CHECK(folder_create(test_text("%s/new/%300d", dir, 0), &made, &err) == -1 && made == 0 &&
          strstr(err.msg, strerror(ENAMETOOLONG)));
    CHECK(access(test_text("%s/new", dir), F_OK) && access(dir, F_OK) == 0);
}

TEST(folders_are_synced_by_the_name_of_what_they_hold) {
    const char *dir = test_dir();
    char path[PATH_BYTES + 8];
    Err err;
    snprintf(path, sizeof path, "%s/x", dir);
    CHECK(folder_sync_of(path, &err) == 0 && folder_sync_of("x", &err) == 0 && folder_sync_of("/x", &err) == 0);
    snprintf(path, sizeof path, "%s/none/x", dir);
    CHECK(folder_sync_of(path, &err) == -1 && strstr(err.msg, "/none: ") && strstr(err.msg, strerror(ENOENT)));
    memset(path, 'x', sizeof path);
    strcpy(path + PATH_BYTES, "/x");
    CHECK(folder_sync_of(path, &err) == -1 && strstr(err.msg, "the path is too long"));
}
