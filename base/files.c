#include "base/files.h"

#include "base/err.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int path_join(char out[PATH_BYTES], const char *dir, const char *name, Err *err) {
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return n < 0 || n >= PATH_BYTES ? err_set(err, "%.200s…: the path is too long", dir) : 0;
}

bool file_is_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 || errno != ENOENT;
}

char *file_read(const char *path, size_t max, size_t *n, Err *err) {
    /* O_NONBLOCK: opening a FIFO must fail below, not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(err, "%s: %s", path, strerror(errno)), NULL;
    struct stat st;
    char *data = NULL;
    size_t size = 0, got = 0;
    if (fstat(fd, &st) < 0) {
        err_set(err, "%s: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(st.st_mode)) {
        err_set(err, "%s: not a regular file", path);
        goto done;
    }
    size = (size_t)st.st_size;
    if (size > max) {
        err_set(err, "%s: %zu bytes, at most %zu are read", path, size, max);
        goto done;
    }
    data = try_malloc(size + 1);
    if (!data) err_set(err, "%s: no memory for its %zu bytes", path, size);
    while (data && got < size) {
        ssize_t r = read(fd, data + got, size - got);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) {
            err_set(err, "%s: %s", path, r < 0 ? strerror(errno) : "became shorter while it was read");
            free(data);
            data = NULL;
            goto done;
        }
        got += (size_t)r;
    }
    if (data) data[size] = 0;
    *n = size;
done:
    close(fd);
    return data;
}

int folder_sync_of(const char *path, Err *err) {
    const char *slash = strrchr(path, '/');
    size_t n = slash ? MAX((size_t)(slash - path), 1) : 1; /* "/x" lies in "/", "x" in "." */
    char folder[PATH_BYTES];
    if (n >= sizeof folder) return err_set(err, "%.200s…: the path is too long", path);
    snprintf(folder, sizeof folder, "%.*s", (int)n, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    if (fd < 0 || fsync(fd) < 0) rc = err_set(err, "%s: %s", folder, strerror(errno));
    if (fd >= 0) close(fd);
    return rc;
}

/* 1 made, 0 there already, -1 error. */
static int make_one(const char *path, Err *err) {
    struct stat st;
    if (mkdir(path, 0777) == 0) {
        if (folder_sync_of(path, err) == 0) return 1;
        rmdir(path);
        return -1;
    }
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return 0;
    return err_set(err, "%s: %s", path, strerror(errno));
}

int folder_create(const char *path, int *made, Err *err) {
    char *part = xstrdup(path), *end = part, *there = part; /* where the last folder that is there ends */
    int rc = *part ? 0 : err_set(err, "the name of a folder is empty"), n = 0;
    while (*end && rc >= 0) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char after = *end;
        *end = 0;
        rc = make_one(part, err);
        *end = after;
        n += rc > 0;
        if (rc >= 0) there = end += strspn(end, "/"); /* "a/" ends with a */
    }
    *there = 0;
    if (rc < 0) folder_remove(part, n);
    if (made) *made = rc < 0 ? 0 : n;
    free(part);
    return MIN(rc, 0);
}

void folder_remove(const char *path, int made) {
    char *part = xstrdup(path);
    size_t n = strlen(part);
    for (; made > 0 && n; made--) {
        while (n && part[n - 1] == '/') part[--n] = 0;
        if (rmdir(part) < 0) break;
        while (n && part[n - 1] != '/') part[--n] = 0;
    }
    free(part);
}

static int count_open(void) {
    enum { LOOKED_AT = 1024 };
    int n = 0;
    for (int fd = 0; fd < LOOKED_AT; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

int files_affordable(int wanted) {
    struct rlimit limit;
    int open = count_open();
    if (getrlimit(RLIMIT_NOFILE, &limit)) return MIN(wanted, 1024 - open);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)wanted + (rlim_t)open) return wanted;
    return (int)limit.rlim_cur - open;
}
