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
/* At any place, also beyond what is written; threads may do so at once. */
int atomic_write_at(AtomicFile *f, size_t offset, const void *data, size_t n, Err *err);
/* n zeros at a place where nothing is written, which takes next to no time, and their room on the disk. False where the
 * file system does not reserve any: then they have to be written. */
bool atomic_reserve_at(AtomicFile *f, size_t offset, size_t n);
int atomic_commit(AtomicFile *f, Err *err);
/* Another process may write at places of it meanwhile, also on another host: atomic_join opens the temp of who has
 * opened it, who commits when all have left. What has been written is on the disk then. */
int atomic_join(AtomicFile *f, const char *path, Err *err);
int atomic_leave(AtomicFile *f, Err *err);
void atomic_abandon(AtomicFile *f); /* removes the temp; harmless after commit */

int file_write(const char *path, const void *data, size_t n, Err *err); /* open, write, commit */
int file_copy(const char *from, const char *to, size_t most, Err *err); /* one that is no longer than `most` */

#endif
