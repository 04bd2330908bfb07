/* record: what a program under fault.so changes below the folder that it was started in, in order, in the file that the
 * environment's FAULT_RECORD names: Records, each followed by its texts and data. */
#ifndef NOISED_TEST_RECORD_H
#define NOISED_TEST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef enum RecordKind {
    RECORD_CREATE,   /* path, a file */
    RECORD_MKDIR,    /* path */
    RECORD_WRITE,    /* n bytes of data at offset of path */
    RECORD_TRUNCATE, /* path to no bytes */
    RECORD_SYNC,     /* path, a file or a folder */
    RECORD_RENAME,   /* path to other */
    RECORD_REMOVE,   /* path, a file or a folder */
    RECORD_KINDS
} RecordKind;

typedef struct Record {
    RecordKind kind;
    bool beside;               /* by another thread than the first */
    size_t n_path, n_other, n; /* the texts end with a NUL, which counts */
    off_t offset;
} Record;

/* ---- for fault.c ---- */

void record_begin(void);
bool record_on(void);
void record_paths(RecordKind kind, int folder, const char *path, const char *other); /* relative to the folder */
void record_file(RecordKind kind, int fd, const void *data, size_t n, off_t offset);
/* Bytes of fd from `from` on, which libc has written where nobody sees it. */
void record_grown(int fd, off_t from);

#endif
