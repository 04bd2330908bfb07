/* soak: what the long targets share. They are cases of the test frame in a program of their own, build/run-soak:
 *     make test-long [SCALE=0.1] [ONLY=hangups]      make soak SECONDS=28800 */
#ifndef NOISED_SOAK_H
#define NOISED_SOAK_H

#include "base/random.h"
#include "tests/support/answers.h"

#include <pthread.h>

int soak_count(int full);  /* full * SCALE of the environment (1), at least 1 */
double soak_seconds(void); /* SOAK_SECONDS of the environment (600) */

/* Room for a few thousand sockets; called by every case. */
void soak_raise_limits(void);

/* What a daemon holds at the moment, by its own account (/health) and by the kernel's. */
typedef struct Vitals {
    int running, queued, kv_blocks_used; /* -1: /health did not answer */
    int fds, threads;
    double rss_mb, own_mb; /* resident, and of it what no file can be asked for again */
} Vitals;
Vitals soak_vitals(const Daemon *d);

/* Waits until nothing runs, waits or is open but what was at `before`; the seconds that took. Fails the case and shows
 * both when it takes more than five. Threads must be as many; memory is the caller's business. */
double soak_settle(const Daemon *d, const Vitals *before);

typedef struct Sample {
    double hours;
    Vitals vitals;
} Sample;
typedef struct Trend {
    double mean, slope, interval; /* a straight line by least squares: slope +- interval an hour with 95% */
} Trend;
Trend trend_of(const Sample *s, int n, double (*what)(const Vitals *v));

/* ---- requests whose answer is known ---- */

typedef struct KnownSet {
    int n, max_tokens;
    char **bodies, **streamed;    /* [n] the same request plain and as a stream with usage */
    char **essences;              /* [n] what each was answered alone */
    const char *key;              /* borrowed; NULL: none */
    const struct KnownSet *other; /* the same requests to another checkpoint, which is as right; NULL: none */
} KnownSet;
void known_open(KnownSet *k, const Daemon *d, int n, int max_tokens, const char *key);
void known_close(KnownSet *k);

/* A run of n requests in a thread of its own: number i asks what k->bodies[i % k->n] asks, as a stream when
 * `stream`, else every second time. */
typedef struct KnownRun {
    const KnownSet *known;
    LoadRequest *requests;
    LoadAnswer *answers;
    char url[64];
    int n, most;
    double seconds;
    pthread_t thread;
} KnownRun;
void known_run_start(KnownRun *r, const KnownSet *k, const Daemon *d, int n, int most, bool stream);
void known_run_join(KnownRun *r);
bool known_run_is_right(const KnownRun *r, int i); /* whole and what it was alone */
void known_run_free(KnownRun *r);

/* ---- clients that hang up ---- */

enum { HANGING = 48 };
typedef struct HangUps {
    const Daemon *daemon;
    const char *key; /* borrowed; NULL: none */
    Draws draws;
    int fds[HANGING]; /* -1: closed */
    int n;            /* hung up so far */
} HangUps;
void hang_ups_open(HangUps *h, const Daemon *d, uint64_t seed, const char *key);
void hang_ups_next(HangUps *h); /* one client goes, another one comes */
void hang_ups_close(HangUps *h);

#endif
