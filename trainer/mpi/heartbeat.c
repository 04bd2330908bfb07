#include "trainer/mpi/heartbeat.h"

#include "base/clock.h"

#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEATS = 20, DEFAULT_LIMIT = 60, LONGEST_LIMIT = 1000000 };
enum { TAG_BEAT, TAG_REPORT };
static const double LONGEST_TICK = 0.25;
static const double IDLE = 0.005; /* of a processor: less is no work */

typedef struct Report {
    int status; /* 0: none */
    char line[1024];
} Report;

typedef struct Heartbeat {
    const Ranks *ranks;
    MPI_Comm comm; /* of its own, so that no beat meets another message */
    MPI_Request sent, heard;
    int next, before;
    char host[RANK_HOST]; /* of the one before */
    double limit, tick;   /* seconds */
    double at, worked;    /* when it last looked, and the time of processors that this process had had then */
    double silent, still; /* seconds of the one before; of this one */
    Report report;        /* the first that came to rank 0 */
    atomic_flag told;     /* the line that the job ends with */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopped;
} Heartbeat;

static Heartbeat beat = {.mutex = PTHREAD_MUTEX_INITIALIZER, .told = ATOMIC_FLAG_INIT};

static void end_all(const char *what) {
    fprintf(stderr, "noised-train-mpi: rank %d on %s: %s\n", beat.ranks->rank, beat.ranks->host, what);
    MPI_Abort(MPI_COMM_WORLD, EXIT_RANK_LOST);
}

/* A beat that the next one has not taken, for it may be that one which is stopped, is not followed by more. */
static void send_beat(Heartbeat *b) {
    int taken;
    MPI_Test(&b->sent, &taken, MPI_STATUS_IGNORE);
    if (taken) MPI_Isend(NULL, 0, MPI_BYTE, b->next, TAG_BEAT, b->comm, &b->sent);
}

static void listen(Heartbeat *b) { MPI_Irecv(NULL, 0, MPI_BYTE, b->before, TAG_BEAT, b->comm, &b->heard); }

static void hear(Heartbeat *b) {
    int came;
    for (MPI_Test(&b->heard, &came, MPI_STATUS_IGNORE); came; MPI_Test(&b->heard, &came, MPI_STATUS_IGNORE)) {
        b->silent = 0;
        listen(b);
    }
}

/* A look later than the report: what has failed on all ranks is better told by rank 0's own words. */
static void take_report(Heartbeat *b) {
    int came;
    MPI_Status from;
    if (b->report.status && !atomic_flag_test_and_set(&b->told)) {
        fputs(b->report.line, stderr);
        MPI_Abort(MPI_COMM_WORLD, b->report.status);
    }
    if (b->ranks->rank || b->report.status) return;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_REPORT, b->comm, &came, &from);
    if (came) MPI_Recv(&b->report, sizeof b->report, MPI_BYTE, from.MPI_SOURCE, TAG_REPORT, b->comm, MPI_STATUS_IGNORE);
}

/* More time than this cannot pass between two looks of a process that runs. */
static double time_passed(Heartbeat *b) {
    double before = b->at;
    b->at = now_seconds();
    return fmin(b->at - before, 2 * b->tick);
}

static void look(Heartbeat *b) {
    char what[200];
    double passed = time_passed(b), worked = process_seconds();
    b->silent += passed;
    b->still = worked - b->worked < IDLE * passed ? b->still + passed : 0;
    b->worked = worked;
    send_beat(b);
    hear(b);
    take_report(b);
    if (b->silent > b->limit) {
        snprintf(what, sizeof what, "waits for rank %d on %s, which has given no sign of life for %g s", b->before,
                 b->host, b->limit);
        end_all(what);
    }
    if (b->still > STILL_LIMITS * b->limit) {
        snprintf(what, sizeof what, "the others wait for it, and it has done nothing for %g s but wait for the system",
                 STILL_LIMITS * b->limit);
        end_all(what);
    }
}

/* Until the next look; false when there is none. */
static bool rest(Heartbeat *b) {
    double until = now_seconds() + b->tick;
    pthread_mutex_lock(&b->mutex);
    while (!b->stopped && !clock_wait(&b->changed, &b->mutex, until)) {}
    bool goes_on = !b->stopped;
    pthread_mutex_unlock(&b->mutex);
    return goes_on;
}

static void *watch(void *arg) {
    Heartbeat *b = arg;
    while (rest(b)) look(b);
    return NULL;
}

/* ---- start and end ---- */

static int read_limit(double *limit, Err *err) {
    const char *text = getenv("NOISED_RANK_TIMEOUT");
    char *end = NULL;
    *limit = text ? strtod(text, &end) : DEFAULT_LIMIT;
    if (text && (end == text || *end || !(*limit > 0 && *limit <= LONGEST_LIMIT)))
        return err_set(err, "NOISED_RANK_TIMEOUT is \"%.40s\", not seconds above 0 up to %d", text, LONGEST_LIMIT);
    return 0;
}

static int start_thread(Heartbeat *b, Err *err) {
    clock_cond_init(&b->changed);
    int rc = pthread_create(&b->thread, NULL, watch, b);
    return rc ? err_set(err, "cannot start a thread that watches the other ranks: %s", strerror(rc)) : 0;
}

int heartbeat_start(const Ranks *r, Err *err) {
    Heartbeat *b = &beat;
    if (r->rank == 0 && read_limit(&b->limit, err)) return -1;
    if (r->n == 1) return 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &b->comm);
    MPI_Bcast(&b->limit, 1, MPI_DOUBLE, 0, b->comm);
    b->tick = fmin(b->limit / BEATS, LONGEST_TICK);
    b->next = (r->rank + 1) % r->n;
    b->before = (r->rank + r->n - 1) % r->n;
    MPI_Sendrecv(r->host, RANK_HOST, MPI_BYTE, b->next, TAG_BEAT, b->host, RANK_HOST, MPI_BYTE, b->before, TAG_BEAT,
                 b->comm, MPI_STATUS_IGNORE);
    b->sent = MPI_REQUEST_NULL;
    b->at = now_seconds();
    b->worked = process_seconds();
    b->ranks = r;
    listen(b);
    return start_thread(b, err);
}

void heartbeat_tell(const char *who, const char *message, int status) {
    Heartbeat *b = &beat;
    MPI_Request sent;
    Report mine = {.status = status};
    if (b->ranks && b->ranks->rank) {
        snprintf(mine.line, sizeof mine.line, "%s: rank %d on %s: %s\n", who, b->ranks->rank, b->ranks->host, message);
        if (*message) MPI_Isend(&mine, sizeof mine, MPI_BYTE, 0, TAG_REPORT, b->comm, &sent);
        clock_sleep(b->limit);
    } else {
        snprintf(mine.line, sizeof mine.line, "%s: %s\n", who, message);
    }
    if (atomic_flag_test_and_set(&b->told))
        clock_sleep(b->limit); /* the thread has printed another rank's, and ends the job */
    else if (*message)
        fputs(mine.line, stderr);
}

/* Nobody watches MPI's own end: the kernel's alarm does. */
void heartbeat_stop(void) {
    Heartbeat *b = &beat;
    if (!b->ranks) return;
    MPI_Barrier(MPI_COMM_WORLD);
    alarm((unsigned)ceil(b->limit));
    pthread_mutex_lock(&b->mutex);
    b->stopped = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    pthread_join(b->thread, NULL);
    MPI_Wait(&b->sent, MPI_STATUS_IGNORE);
    MPI_Cancel(&b->heard);
    MPI_Wait(&b->heard, MPI_STATUS_IGNORE);
    MPI_Comm_free(&b->comm);
    pthread_cond_destroy(&b->changed);
    b->ranks = NULL;
}
