/* batch: the requests of a file, answered into another, by what answers them over HTTP and to the same bytes; no socket
 * is opened. Formats and what comes of a bad line are OpenAI's batches' (docs/api.md).
 *
 * The calling thread reads, hands requests to the routes and writes; it plays the part of the HTTP loop. In flight are
 * as many requests as keep the engine's batch full. One that finds the queue full is put back until another has ended,
 * so nobody is told to come again. What has ended is in the file at once, and within a second for good; whatever ends
 * the process, the same command goes on behind it. Memory is what is in flight, and an entry for each id (ids.h). */
#ifndef NOISED_BATCH_H
#define NOISED_BATCH_H

#include "server/server.h"

#include <signal.h>

typedef struct BatchFile BatchFile;

/* Opens both files, so that what is wrong with them is known before a model is loaded; the paths are borrowed. */
int batch_open(BatchFile **out, const char *requests, const char *results, Err *err);

enum { BATCH_SOME_FAILED = 3 };

/* Does what is left to do, `width` requests at a time. *status: EXIT_DONE, BATCH_SOME_FAILED, or 128 and the number of
 * the signal that ended it. `signals` are blocked in every thread. On return nothing of it runs any more. */
int batch_run(BatchFile *b, Server *s, int width, const sigset_t *signals, int *status, Err *err);

/* After the engines, which may wake it until they are gone. NULL is fine. */
void batch_free(BatchFile *b);

#endif
