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
    char *dir = test_dir(), path[PATH_BYTES], temp[PATH_BYTES + 8];
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
    free(dir);
}
