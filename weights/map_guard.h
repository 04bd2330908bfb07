/* map_guard: mapped files that somebody cuts short or writes to, or that the disk cannot read any more.
 *
 * A page that is not there any more ends a process by SIGBUS. Once map_guard_install has been called, the whole mapping
 * reads as zeros instead, and counts as damaged from then on. Writes into the file raise no signal but show through
 * the mapping. They move its time of modification; where a writer puts that back, at least its time of change, which
 * nobody can. So code that computes from a mapping looks afterwards, and throws the result away when it is damaged.
 *
 * A time of change moves for harmless reasons too: permissions, a new link, another file renamed over its name. The
 * last, the way to replace a served file, is let pass; after the others only the data can tell (safe_intact).
 * What moves no time at all, a writer with an old mapping or a disk that forgets, is left to scrub.h. */
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

typedef enum MapState {
    MAP_INTACT,
    MAP_TOUCHED, /* the time of change has moved: look at the data, then call map_guard_accept or _condemn */
    MAP_DAMAGED, /* for ever: a page was missing, or the file has another size or time of modification */
} MapState;

/* About 0.3 microseconds. *changed is the time of change that it saw, in nanoseconds. */
MapState map_guard_look(const MapGuard *g, int64_t *changed);
void map_guard_accept(const MapGuard *g, int64_t changed);
void map_guard_condemn(const MapGuard *g);

#endif
