/* In which order a file gets to the disk, and what remains of one that does not. */
#include "base/atomic_file.h"
#include "base/memory.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What this process asks of the kernel while `recording`: f, a file of SIZE bytes is synced; p, another one, or part of
 * one; d, a folder; r, a file gets its name. */
enum { SIZE = 1000 };
static bool recording, disk_fails;
static char record[16];

static void note(char what) {
    size_t n = strlen(record);
    if (recording && n < sizeof record - 1) record[n] = what;
}

int fsync(int fd) {
    struct stat st = {0};
    fstat(fd, &st);
    note(S_ISDIR(st.st_mode) ? 'd' : st.st_size == SIZE ? 'f' : 'p');
    if (!recording || !disk_fails) return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

int rename(const char *from, const char *to) {
    note('r');
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* The calls of pwrite that are still to fail with EINTR, as they do where a signal comes before the first byte; then
 * those that take a single byte; then the one that fails. */
static int interrupted, bytewise, write_error;

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
    if (interrupted && interrupted--) {
        errno = EINTR;
        return -1;
    }
    if (write_error && !bytewise) {
        errno = write_error;
        return -1;
    }
    if (bytewise && bytewise--) n = 1;
    return (ssize_t)syscall(SYS_pwrite64, fd, data, n, offset);
}

static int write_recorded(const char *path, char byte, Err *err) {
    char data[SIZE];
    memset(data, byte, sizeof data);
    memset(record, 0, sizeof record);
    recording = true;
    int rc = file_write(path, data, sizeof data, err);
    recording = false;
    return rc;
}

static bool holds(const char *path, char byte) {
    size_t n;
    char *data = test_read_file(path, &n);
    bool so = data && n == SIZE && data[0] == byte && !memcmp(data, data + 1, n - 1);
    free(data);
    return so;
}

/* A name never leads to bytes that a loss of power may take away, and the name itself is on the disk at the end. A sync
 * that fails is not tried again: the second would succeed, without the bytes. */
TEST(atomic_file_is_synced_before_it_is_named) {
    const char *dir = test_dir();
    char path[PATH_BYTES], temp[PATH_BYTES + 8];
    Err err;
    snprintf(path, sizeof path, "%s/x", dir);
    snprintf(temp, sizeof temp, "%s.tmp", path);
    CHECK_MSG(write_recorded(path, 'a', &err) == 0 && !strcmp(record, "frd"), "%s", record);
    CHECK(holds(path, 'a') && access(temp, F_OK));
    disk_fails = true;
    CHECK_MSG(write_recorded(path, 'b', &err) == -1 && !strcmp(record, "f"), "%s", record);
    disk_fails = false;
    CHECK_MSG(strstr(err.msg, temp) && strstr(err.msg, strerror(EIO)), "%s", err.msg);
    CHECK(holds(path, 'a') && access(temp, F_OK));
}

TEST(atomic_file_goes_on_after_short_and_interrupted_writes) {
    const char *dir = test_dir();
    char path[PATH_BYTES], *data;
    AtomicFile f;
    Err err;
    size_t n;
    snprintf(path, sizeof path, "%s/x", dir);
    REQUIRE(atomic_open(&f, path, &err) == 0 && atomic_write(&f, "one, ", 5, &err) == 0);
    interrupted = 2;
    bytewise = 3;
    CHECK(atomic_write(&f, "two, three", 10, &err) == 0 && interrupted == 0 && bytewise == 0);
    CHECK(atomic_write_at(&f, 5, "TWO", 3, &err) == 0 && atomic_write_at(&f, 10, "THREE", 5, &err) == 0);
    CHECK(atomic_commit(&f, &err) == 0);
    data = test_read_file(path, &n);
    CHECK_MSG(n == 15 && !strcmp(data, "one, TWO, THREE"), "%s", data);
    free(data);
    bytewise = 1;
    write_error = ENOSPC;
    errno = 0;
    CHECK(file_write(path, "else", 4, &err) == -1 && strstr(err.msg, ".tmp: ") && strstr(err.msg, strerror(ENOSPC)));
    write_error = bytewise = 0;
    data = test_read_file(path, &n);
    CHECK_MSG(n == 15 && !strcmp(data, "one, TWO, THREE"), "%s", data);
    free(data);
    strcat(path, ".tmp");
    CHECK(access(path, F_OK));
}

TEST(atomic_file_reserves_zeros) {
    enum { BEFORE = 5, ZEROS = 70000 };
    const char *dir = test_dir();
    char path[PATH_BYTES], *data, want[ZEROS] = {0};
    AtomicFile f;
    Err err;
    size_t n;
    snprintf(path, sizeof path, "%s/x", dir);
    REQUIRE(atomic_open(&f, path, &err) == 0 && atomic_write(&f, "five,", BEFORE, &err) == 0);
    if (!atomic_reserve_at(&f, BEFORE, ZEROS)) SKIP("the file system reserves nothing");
    CHECK(atomic_write_at(&f, BEFORE + ZEROS, "end", 3, &err) == 0 && atomic_commit(&f, &err) == 0);
    data = test_read_file(path, &n);
    CHECK(n == BEFORE + ZEROS + 3 && !memcmp(data, "five,", BEFORE) && !memcmp(data + BEFORE, want, ZEROS) &&
          !memcmp(data + BEFORE + ZEROS, "end", 3));
    free(data);
}

/* The first of what a program opens that was started without standard input. */
TEST(atomic_file_may_be_descriptor_0) {
    const char *dir = test_dir();
    Err err;
    const char *path = test_text("%s/x", dir);
    int saved = dup(STDIN_FILENO);
    REQUIRE(saved > 0);
    close(STDIN_FILENO);
    AtomicFile f;
    int rc = atomic_open(&f, path, &err), fd = f.fd;
    atomic_abandon(&f);
    bool left = access(f.temp, F_OK) == 0, open = fcntl(STDIN_FILENO, F_GETFD) != -1;
    dup2(saved, STDIN_FILENO);
    close(saved);
    CHECK_MSG(rc == 0 && fd == STDIN_FILENO && !left && !open, "%d %d %d %d", rc, fd, left, open);
}

TEST(atomic_file_refuses_what_it_cannot_make) {
    const char *dir = test_dir();
    char path[PATH_BYTES * 2];
    Err err;
    for (size_t length = PATH_BYTES - 1; length <= PATH_BYTES; length++) {
        memset(path, 'x', length);
        path[length] = 0;
        CHECK(file_write(path, "", 1, &err) == -1);
        CHECK_MSG(!strstr(err.msg, "the path is too long") == (length < PATH_BYTES), "%zu: %s", length, err.msg);
    }
    snprintf(path, sizeof path, "%s/folder", dir);
    CHECK(mkdir(path, 0777) == 0 && file_write(path, "", 1, &err) == -1);
    CHECK_MSG(strstr(err.msg, path) && strstr(err.msg, strerror(EISDIR)), "%s", err.msg);
    snprintf(path, sizeof path, "%s/none/x", dir);
    CHECK(file_write(path, "", 1, &err) == -1);
    CHECK_MSG(strstr(err.msg, path) && strstr(err.msg, strerror(ENOENT)), "%s", err.msg);
}
