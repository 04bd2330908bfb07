/* soak_world: what a machine does to a daemon while it serves: its log is not read, its memory is taken, the clock is
 * set, its files are replaced. */
#ifndef NOISED_SOAK_WORLD_H
#define NOISED_SOAK_WORLD_H

#include "tests/soak/soak.h"

#include <stdatomic.h>

/* ---- a reader of the log that stalls ---- */

typedef struct LogReader {
    char path[256]; /* a FIFO: for daemon_log_to */
    int fd;
    atomic_bool over;
    int64_t lines;
    int stalls;
    pthread_t thread;
} LogReader;
void log_reader_start(LogReader *r, const char *dir);
void log_reader_end(LogReader *r); /* once nobody writes any more */

/* ---- a control group with little memory ---- */

typedef struct Pressure {
    char group[128]; /* empty: this machine lets us make none */
    char home[256];  /* where we were */
    char file[256];  /* larger than the group */
    double limit_mb;
    int rounds;
} Pressure;
/* Moves this process into a group without a limit yet: what it starts stays there. False where that is not allowed. */
bool pressure_open(Pressure *p, const char *dir);
void pressure_leave(Pressure *p, double spare_mb); /* this process goes, and the limit is what the rest has + spare */
void pressure_round(Pressure *p);                  /* reads the file in the group: pages of others must go */
void pressure_close(Pressure *p);

/* ---- a clock that is set ---- */

typedef struct Clock {
    char path[256]; /* empty: no libfaketime here */
    int jumps;
} Clock;
void clock_open(Clock *c, const char *dir); /* daemons started from now on have it */
void clock_jump(Clock *c, int round);
void clock_close(void);

/* ---- two checkpoints behind one name ---- */

typedef struct Site {
    const char *dir;
    char live[300];
    Daemon daemon;
    int at;       /* 0 or 1: what live points to */
    int replaced; /* files */
} Site;
bool site_open(Site *s, TestCheckpoint kind, const char *options);
void site_point(Site *s, int version);
void site_replace(Site *s); /* the weights by a copy of themselves, under the daemon */
void site_close(Site *s);

#endif
