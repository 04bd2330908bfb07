#include "tests/faults/record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int log_fd = -1;
static char top[PATH_MAX]; /* the folder */

void record_begin(void) {
    const char *path = getenv("FAULT_RECORD");
    if (path && getcwd(top, sizeof top))
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

bool record_on(void) { return log_fd >= 0; }

/* Below the top; NULL: elsewhere. */
static const char *inside(const char *path) {
    size_t n = strlen(top);
    if (strncmp(path, top, n) || (path[n] && path[n] != '/')) return NULL;
    return path[n] ? path + n + 1 : ".";
}

/* One call, so that records of several threads never mix. */
static void put(RecordKind kind, const char *path, const char *other, const void *data, size_t n, off_t offset) {
    Record r = {.kind = kind,
                .beside = syscall(SYS_gettid) != getpid(),
                .n_path = strlen(path) + 1,
                .n_other = strlen(other) + 1,
                .n = n,
                .offset = offset};
    struct iovec parts[] = {{&r, sizeof r}, {(void *)path, r.n_path}, {(void *)other, r.n_other}, {(void *)data, n}};
    if (syscall(SYS_writev, log_fd, parts, 4) < 0) abort();
}

static bool path_of(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 && path[0] == '/';
}

/* Without what stands for nothing, "./" and a slash at the end. */
static bool absolute(int folder, const char *path, char out[PATH_MAX]) {
    char base[PATH_MAX];
    while (!strncmp(path, "./", 2)) path += 2;
    if (path[0] == '/')
        snprintf(out, PATH_MAX, "%s", path);
    else if (folder == AT_FDCWD ? getcwd(base, sizeof base) != NULL : path_of(folder, base))
        snprintf(out, PATH_MAX, "%.2000s/%.2000s", base, path);
    else
        return false;
    for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--) out[n - 1] = 0;
    return true;
}

void record_paths(RecordKind kind, int folder, const char *path, const char *other) {
    char from[PATH_MAX], to[PATH_MAX] = "";
    if (!absolute(folder, path, from) || (other && !absolute(folder, other, to))) return;
    if (inside(from)) put(kind, inside(from), other && inside(to) ? inside(to) : "", NULL, 0, 0);
}

void record_file(RecordKind kind, int fd, const void *data, size_t n, off_t offset) {
    char path[PATH_MAX];
    if (path_of(fd, path) && inside(path)) put(kind, inside(path), "", data, n, offset);
}

void record_grown(int fd, off_t from) {
    char path[PATH_MAX], block[65536];
    struct stat st;
    if (!path_of(fd, path) || !inside(path) || fstat(fd, &st) || st.st_size <= from) return;
    int again = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    for (off_t at = from; at < st.st_size;) {
        ssize_t n = syscall(SYS_pread64, again, block, sizeof block, at);
        if (n <= 0) break;
        put(RECORD_WRITE, inside(path), "", block, (size_t)n, at);
        at += n;
    }
    syscall(SYS_close, again);
}
