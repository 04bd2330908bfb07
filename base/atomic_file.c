#include "base/atomic_file.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

/* The temporary has a fixed name, so that what a killed process leaves behind is overwritten by the next save. */
static int open_temp(AtomicFile *f, const char *path, int flags, Err *err) {
    f->fd = -1;
    f->written = 0;
    int n = snprintf(f->path, sizeof f->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof f->path) return err_set(err, "%.200s…: the path is too long", path);
    snprintf(f->temp, sizeof f->temp, "%s.tmp", f->path);
    f->fd = open(f->temp, flags | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);
    return f->fd < 0 ? err_set(err, "%s: %s", f->temp, strerror(errno)) : 0;
}

int atomic_open(AtomicFile *f, const char *path, Err *err) { return open_temp(f, path, O_CREAT | O_TRUNC, err); }

int atomic_join(AtomicFile *f, const char *path, Err *err) { return open_temp(f, path, 0, err); }

/* Lets the disk begin, so that little is left for fsync to wait for. An error here is one of fsync's too. */
static void ask_for_writing(const AtomicFile *f, size_t offset, size_t n) {
    enum { OFTEN = 32 << 20 };
    if (offset / OFTEN != (offset + n) / OFTEN) sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int atomic_write_at(AtomicFile *f, size_t offset, const void *data, size_t n, Err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t w = pwrite(f->fd, (const char *)data + done, n - done, (off_t)(offset + done));
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return err_set(err, "%s: %s", f->temp, strerror(errno));
        done += (size_t)w;
    }
    ask_for_writing(f, offset, n);
    return 0;
}

bool atomic_reserve_at(AtomicFile *f, size_t offset, size_t n) {
    return fallocate(f->fd, 0, (off_t)offset, (off_t)n) == 0;
}

int atomic_write(AtomicFile *f, const void *data, size_t n, Err *err) {
    size_t end = f->written;
    f->written += n;
    return atomic_write_at(f, end, data, n, err);
}

/* A failed fsync is never tried again: the kernel may have dropped the pages, and a second call would succeed. */
int atomic_leave(AtomicFile *f, Err *err) {
    int rc = fsync(f->fd) < 0 ? err_set(err, "%s: %s", f->temp, strerror(errno)) : 0;
    if (close(f->fd) < 0 && rc == 0) rc = err_set(err, "%s: %s", f->temp, strerror(errno));
    f->fd = -1;
    return rc;
}

int atomic_commit(AtomicFile *f, Err *err) {
    int rc = atomic_leave(f, err);
    if (rc == 0 && rename(f->temp, f->path) < 0) rc = err_set(err, "%s: %s", f->path, strerror(errno));
    if (rc) {
        unlink(f->temp);
        return -1;
    }
    return folder_sync_of(f->path, err);
}

void atomic_abandon(AtomicFile *f) {
    if (f->fd < 0) return;
    close(f->fd);
    f->fd = -1;
    unlink(f->temp);
}

int file_write(const char *path, const void *data, size_t n, Err *err) {
    AtomicFile f;
    if (atomic_open(&f, path, err)) return -1;
    if (atomic_write(&f, data, n, err)) {
        atomic_abandon(&f);
        return -1;
    }
    return atomic_commit(&f, err);
}

int file_copy(const char *from, const char *to, size_t most, Err *err) {
    size_t n;
    char *text = file_read(from, most, &n, err);
    if (!text) return -1;
    int rc = file_write(to, text, n, err);
    free(text);
    return rc;
}
