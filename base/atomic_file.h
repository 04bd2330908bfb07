/* files: small whole files, read and atomically written. */
#ifndef NOISED_FILES_H
#define NOISED_FILES_H

#include "base/err.h"

enum { PATH_BYTES = 1024 };

/* dir/name; -1 when that is too long. */
int path_join(char out[PATH_BYTES], const char *dir, const char *name, Err *err);

/* malloc'ed, NUL-terminated behind *n bytes; refuses what is no regular file or longer than max. */
char *file_read(const char *path, size_t max, size_t *n, Err *err);

/* A file that appears under its name only when it is whole: temp in the same folder, fsync, rename, folder fsync. */
typedef struct AtomicFile {
    char path[PATH_BYTES], temp[PATH_BYTES + 16];
    int fd;
    size_t written;
} AtomicFile;
int atomic_open(AtomicFile *f, const char *path, Err *err);
int atomic_write(AtomicFile *f, const void *data, size_t n, Err *err);
int atomic_rewrite(AtomicFile *f, size_t offset, const void *data, size_t n, Err *err); /* of what is written */
int atomic_commit(AtomicFile *f, Err *err);
void atomic_abandon(AtomicFile *f); /* removes the temp; harmless after commit */

int file_write(const char *path, const void *data, size_t n, Err *err); /* open, write, commit */

/* mkdir -p, each followed by fsync of the parent; an existing folder is fine. *made, which may be NULL: how many were
 * made; none are when it fails. */
int folder_create(const char *path, int *made, Err *err);
/* The way back: removes the last `made` folders of path, as far as they are empty. */
void folder_remove(const char *path, int made);

#endif
