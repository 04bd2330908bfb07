/* files: paths, small whole files, and folders. */
#ifndef NOISED_FILES_H
#define NOISED_FILES_H

#include "base/err.h"

enum { PATH_BYTES = 1024 };

/* dir/name; -1 when that is too long. */
int path_join(char out[PATH_BYTES], const char *dir, const char *name, Err *err);

/* A link that leads nowhere is there too: what it should lead to must not be taken for left out. */
bool file_is_there(const char *path);

/* malloc'ed, NUL-terminated behind *n bytes; refuses what is no regular file or longer than max. */
char *file_read(const char *path, size_t max, size_t *n, Err *err);

/* mkdir -p, each followed by fsync of the parent; an existing folder is fine. *made, which may be NULL: how many were
 * made; none are when it fails. */
int folder_create(const char *path, int *made, Err *err);
/* The way back: removes the last `made` folders of path, as far as they are empty. */
void folder_remove(const char *path, int made);

/* fsync of the folder that holds path, so that a name in it outlives a crash. */
int folder_sync_of(const char *path, Err *err);

/* How many of `wanted` more descriptors the process may have, with its limit raised as far as it may be. */
int files_affordable(int wanted);

#endif
