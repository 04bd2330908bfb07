/* map_guard: mapped files that somebody cuts short or writes to, or that the disk cannot read any more.
 *
 * A page that is not there any more ends a process by SIGBUS. Once map_guard_install has been called, the whole mapping
 * reads as zeros instead, and counts as damaged from then on. Writes into the file raise no signal but show through
 * the mapping; they change the file's time of modification, which map_guard_intact looks at. So whoever computes from
 * a mapping asks afterwards, and throws the result away when the answer is no. */
#ifndef NOISED_MAP_GUARD_H
#define NOISED_MAP_GUARD_H

#include "base/err.h"

#include <time.h>

typedef struct MapGuard {
    int slot, fd; /* slot 0: none, so that a zeroed MapGuard is closed */
    int64_t size;
    struct timespec modified;
} MapGuard;

/* Handles SIGBUS in the whole process. Faults outside of all guarded mappings end it as before. */
int map_guard_install(Err *err);

/* Guards map[0 .. bytes), all of the file that fd is open on. Takes over fd, on failure too. Thread-safe, as all here.
 */
int map_guard_open(MapGuard *g, void *map, size_t bytes, int fd, Err *err);
void map_guard_close(MapGuard *g); /* before munmap; harmless when closed */

/* False once a page was missing or the file has another size or time of modification than when it was mapped. About
 * 0.3 microseconds. */
bool map_guard_intact(const MapGuard *g);

#endif
