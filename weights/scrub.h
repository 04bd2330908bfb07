/* scrub: a thread that reads mapped weights again, round and round, and compares them with their digests (proof.h).
 *
 * For what moves no time of the file, and so is hidden from map_guard: a writer that has the file mapped as well, a
 * disk or memory that forgets. A file that is not what it was counts as damaged from then on; a line in the log says
 * where. The thread runs at a low priority, a MiB at a time, evenly over the period: what it passes is at most one
 * period old, unless the machine is so busy that it falls behind. */
#ifndef NOISED_SCRUB_H
#define NOISED_SCRUB_H

#include "base/err.h"
#include "weights/shards.h"

typedef struct Scrub Scrub;

/* seconds: of a round over all files, above 0. The files are borrowed until scrub_stop. */
int scrub_start(Scrub **out, const Shards *files, double seconds, Err *err);
void scrub_stop(Scrub *s); /* NULL is fine */

#endif
