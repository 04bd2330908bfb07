#include "weights/scrub.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct Scrub {
    const Shards *files;
    double pause; /* seconds between two blocks */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    bool stopping;
};

static bool wait_until(Scrub *s, double when) {
    int rc = 0;
    pthread_mutex_lock(&s->mutex);
    while (!s->stopping && rc == 0) rc = clock_wait(&s->wake, &s->mutex, when);
    bool go_on = !s->stopping;
    pthread_mutex_unlock(&s->mutex);
    return go_on;
}

/* False at the end, or when the file is damaged. */
static bool scrub_file(Scrub *s, int i, double *due) {
    const SafeFile *f = &s->files->files[i];
    bool go_on = true;
    ProofWalk w = {0};
    for (size_t b = 0; b < f->proof->n_blocks && go_on; b++) {
        go_on = wait_until(s, *due += s->pause);
        if (!go_on || proof_walk_step(&w, f->proof)) continue;
        log_error("%s: the MiB of data at %zu is not what was loaded", s->files->names[i], b * PROOF_BLOCK);
        safe_condemn(f);
        go_on = false;
    }
    return go_on;
}

static void *run(void *arg) {
    Scrub *s = arg;
    double due = now_seconds();
    setpriority(PRIO_PROCESS, 0, 10); /* of this thread only; a service may have no say in it */
    for (int i = 0; scrub_file(s, i, &due);) i = (i + 1) % s->files->n_files;
    return NULL;
}

static void destroy(Scrub *s) {
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->wake);
    free(s);
}

int scrub_start(Scrub **out, const Shards *files, double seconds, Err *err) {
    Scrub *s = xcalloc(1, sizeof *s);
    size_t n_blocks = 0;
    for (int i = 0; i < files->n_files; i++) n_blocks += files->files[i].proof->n_blocks;
    s->files = files;
    s->pause = seconds / (double)n_blocks;
    pthread_mutex_init(&s->mutex, NULL);
    clock_cond_init(&s->wake);
    int rc = pthread_create(&s->thread, NULL, run, s);
    if (rc) {
        destroy(s);
        return err_set(err, "cannot start the thread that reads the weights again: %s", strerror(rc));
    }
    *out = s;
    return 0;
}

void scrub_stop(Scrub *s) {
    if (!s) return;
    pthread_mutex_lock(&s->mutex);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    destroy(s);
}
