#include "server/engine/team_size.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/team.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const double LOOK = 0.2, PATIENCE = 0.5, MOST_PATIENCE = 16; /* seconds */

/* Of those that compute now. */
static int best_of(const TeamSize *c, double delayed) {
    double others = c->size * delayed / fmax(1 - delayed, 0.01);
    int best = c->size - (int)fmin(floor(others + 0.25), c->size);
    return 2 * best >= c->most ? best : c->size;
}

void team_size_time(TeamSize *c, int rows, double seconds) {
    static const double NEWS = 0.25;
    int size = 0;
    while (rows >> (size + 1) && size < TEAM_PACES - 1) size++;
    double *pace = &c->pace[size], now = seconds / rows;
    if (c->size == c->most) {
        *pace = *pace > 0 ? *pace + NEWS * (now - *pace) : now;
    } else if (*pace > 0) {
        c->spent += seconds;
        c->full_team += *pace * rows;
    }
}

int team_size_decide(TeamSize *c, double delayed, double now) {
    const double kept_waiting = 0.2;
    int best = best_of(c, delayed);
    bool full = c->size == c->most, faster = c->spent < c->full_team;
    bool useless = full ? best < c->size : delayed > kept_waiting || !faster;
    c->spent = c->full_team = 0;
    bool tried = c->trying;
    c->trying = false;
    if (full && !useless) c->patience = PATIENCE;
    if (useless && tried) c->patience = fmin(2 * c->patience, MOST_PATIENCE);
    if (full) {
        if (!useless || now < c->until) return c->size;
        c->trying = true;
        c->until = now + c->patience;
        return best;
    }
    if (!useless && now < c->until) return c->size;
    c->trying = !useless;
    c->until = useless ? now + c->patience : now;
    return c->most;
}

/* Seconds; negative when the kernel does not tell. Nothing is allocated. */
static double delay_of(pid_t thread) {
    char path[64], text[128];
    unsigned long long ran, waited;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? 1e-9 * (double)waited : -1;
}

/* The mean share of the time since the last look; negative when one is not known, or when that was not a time of
 * computing: a thread that was idle before has waited for other things. */
static double look(TeamSize *c, double now) {
    double sum = 0;
    bool known = now - c->since < 2 * c->busy;
    for (int i = 0; i < c->size; i++) {
        double before = c->delays[i];
        c->delays[i] = delay_of(c->threads[i]);
        known = known && before >= 0 && c->delays[i] >= 0;
        sum += c->delays[i] - before;
    }
    double share = sum / c->size / c->busy;
    c->since = now;
    c->busy = 0;
    return known ? fmin(fmax(share, 0), 1) : -1;
}

/* Ends as OpenMP's threads do: what the C library loads for that, and aborts without, is there from then on. */
static void *wait_at(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    pthread_exit(NULL);
}

int team_size_try(int more) {
    enum { MOST = 512 };
    pthread_t threads[MOST];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int n = 0, rc = 0;
    pthread_mutex_lock(&gate);
    while (n < MIN(more, MOST) && (rc = pthread_create(&threads[n], NULL, wait_at, &gate)) == 0) n++;
    pthread_mutex_unlock(&gate);
    while (n > 0) pthread_join(threads[--n], NULL);
    return rc;
}

/* Makes the team this large; its members are other threads from now on, perhaps. */
static void resize(TeamSize *c, int size, double now) {
    c->size = size;
    team_resize(size);
#pragma omp parallel
    c->threads[team_member()] = gettid();
    look(c, now);
}

void team_size_init(TeamSize *c) {
    int most = team_size();
    *c = (TeamSize){.most = most, .size = most, .patience = PATIENCE};
    c->threads = xcalloc((size_t)most, sizeof *c->threads);
    c->delays = xcalloc((size_t)most, sizeof *c->delays);
    resize(c, most, now_seconds());
}

void team_size_free(TeamSize *c) {
    free(c->threads);
    free(c->delays);
    *c = (TeamSize){0};
}

void team_size_observe(TeamSize *c, int rows, double seconds, double now) {
    c->busy += seconds;
    team_size_time(c, rows, seconds);
    if (c->most == 1 || c->busy < LOOK) return;
    double delayed = look(c, now);
    if (delayed < 0) return;
    int size = team_size_decide(c, delayed, now);
    if (size != c->size && team_size_try(size - c->size) == 0) resize(c, size, now);
}
