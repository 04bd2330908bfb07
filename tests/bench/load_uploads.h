/* load_uploads: clients beside a load, each in a thread of its own, that send one body of just below 256 KiB after the
 * other, by turns to /tokenize and to /v1/completions, as a prompt longer than any context; every fourth at 128 KiB/s.
 */
#ifndef NOISED_LOAD_UPLOADS_H
#define NOISED_LOAD_UPLOADS_H

typedef struct Uploads Uploads;

Uploads *uploads_start(const char *server, int clients); /* http://HOST:PORT, borrowed */

/* Breaks off what flies, ends the threads, frees; how many bodies were answered. */
int uploads_stop(Uploads *u);

#endif
