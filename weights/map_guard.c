#include "weights/map_guard.h"

#include "base/err.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 4096 }; /* of two or three versions of a checkpoint in many shards */

/* What the signal handler may look at: atomics in memory that never goes away. */
typedef struct Slot {
    atomic_uintptr_t begin; /* 0: free */
    atomic_size_t bytes;
    atomic_bool damaged;
    /* ---- not for the handler ---- */
    atomic_int_least64_t changed; /* the time of change that counts as harmless, nanoseconds */
    atomic_bool named;            /* the file had a name */
} Slot;

static Slot slots[SLOTS + 1]; /* [0] is never used */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Zero pages for all of the mapping at once: page by page, a large one would use up the process's number of areas. */
static bool put_zeros_at(uintptr_t at) {
    for (int i = 1; i <= SLOTS; i++) {
        Slot *s = &slots[i];
        uintptr_t begin = atomic_load(&s->begin);
        size_t bytes = atomic_load(&s->bytes);
        if (begin == 0 || at < begin || at - begin >= bytes) continue;
        atomic_store(&s->damaged, true);
        return mmap((void *)begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
               MAP_FAILED;
    }
    return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    int before = errno;
    (void)context;
    /* Returning runs the instruction again: on zeros, or to the end that SIGBUS has by default. */
    if (!put_zeros_at((uintptr_t)info->si_addr)) signal(number, SIG_DFL);
    errno = before;
}

int map_guard_install(Err *err) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) ? err_set(err, "sigaction: %s", strerror(errno)) : 0;
}

static int64_t change_time(const struct stat *st) {
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

static int take_slot(void *map, size_t bytes, const struct stat *st) {
    int i = 1;
    pthread_mutex_lock(&mutex);
    while (i <= SLOTS && atomic_load(&slots[i].begin)) i++;
    if (i <= SLOTS) {
        atomic_store(&slots[i].damaged, false);
        atomic_store(&slots[i].changed, change_time(st));
        atomic_store(&slots[i].named, st->st_nlink > 0);
        atomic_store(&slots[i].bytes, bytes);
        atomic_store(&slots[i].begin, (uintptr_t)map);
    }
    pthread_mutex_unlock(&mutex);
    return i <= SLOTS ? i : 0;
}

int map_guard_open(MapGuard *g, void *map, size_t bytes, int fd, Err *err) {
    struct stat st;
    *g = (MapGuard){0};
    if (fstat(fd, &st) < 0) {
        err_set(err, "fstat: %s", strerror(errno));
    } else if ((g->slot = take_slot(map, bytes, &st)) == 0) {
        err_set(err, "more than %d files are mapped at once", SLOTS);
    } else {
        g->fd = fd;
        g->size = (int64_t)bytes;
        g->modified = st.st_mtim;
        return 0;
    }
    close(fd);
    return -1;
}

void map_guard_close(MapGuard *g) {
    if (!g->slot) return;
    atomic_store(&slots[g->slot].begin, 0);
    close(g->fd);
    *g = (MapGuard){0};
}

MapState map_guard_look(const MapGuard *g, int64_t *changed) {
    struct stat st;
    if (!g->slot) return MAP_INTACT;
    Slot *s = &slots[g->slot];
    if (atomic_load(&s->damaged) || fstat(g->fd, &st) || st.st_size != g->size ||
        st.st_mtim.tv_sec != g->modified.tv_sec || st.st_mtim.tv_nsec != g->modified.tv_nsec)
        return MAP_DAMAGED;
    *changed = change_time(&st);
    if (*changed == atomic_load(&s->changed)) return MAP_INTACT;
    if (st.st_nlink > 0 || !atomic_exchange(&s->named, false)) return MAP_TOUCHED;
    atomic_store(&s->changed, *changed);
    return MAP_INTACT;
}

void map_guard_accept(const MapGuard *g, int64_t changed) { atomic_store(&slots[g->slot].changed, changed); }

void map_guard_condemn(const MapGuard *g) { atomic_store(&slots[g->slot].damaged, true); }
