/* atomic_file: a file that appears under its name only when it is whole: temp in the same folder, fsync, rename, folder
 * fsync. */
#ifndef NOISED_ATOMIC_FILE_H
#define NOISED_ATOMIC_FILE_H

#include "base/err.h"
#include "base/files.h"

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

#endif
