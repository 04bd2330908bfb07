#include "server/engine/engine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/shape.h"
#include "server/engine/job_kind.h"
#include "server/engine/queue.h"
#include "server/engine/runner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How much work a second the engine gets done: sums of rows and busy seconds that fade by 1/32 a step. */
typedef struct Rate {
    double rows, seconds;
} Rate;

struct Engine {
    EngineOptions options;
    const Config *config;
    const Shards *files; /* that the weights are in */
    pthread_t thread;
    Runner runner;                   /* the engine thread's, apart from runner_holds */
    atomic_uint_least64_t heartbeat; /* nanoseconds of now_seconds(); 0 = not ready yet */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;
    Queue queue;
    Job *displaced;       /* out of the queue, to be finished by the thread */
    bool any_client;      /* has submitted something: */
    uint64_t last_client; /* this one last */
    double shared_until;  /* until then several clients are taken to be here */
    bool draining, stopping;
    Rate rate;
    EngineStats stats;
};

/* ---- submitting ---- */

/* What the client can get wrong is checked where requests are parsed; here it would be a bug. */
static void check_job(const Engine *e, const Job *job) {
    for (int i = 0; i < job->n_prompt && !job->image; i++)
        BUG_ON(job->prompt[i] < 0 || job->prompt[i] >= e->config->vocab_size);
    for (int i = 0; i < job->n_stop_ids; i++) BUG_ON(job->stop_ids[i] < 0 || job->stop_ids[i] >= e->config->vocab_size);
    BUG_ON(config_generates(e->config) ? job->kind->take_logits != NULL : job->kind->draws);
    BUG_ON((e->config->input.kind == INPUT_PATCHES) != (job->image != NULL));
    const Sampling *s = &job->sampling;
    for (int i = 0; i < s->n_bias; i++) BUG_ON(s->bias[i].id < 0 || s->bias[i].id >= e->config->vocab_size);
}

static double predicted_wait(const Engine *e) {
    double wait = e->rate.rows > 0 ? (double)e->queue.rows * e->rate.seconds / e->rate.rows : 1;
    return fmin(fmax(wait, 0.1), 60);
}

/* While clients alternate, none that runs something takes the last of the cache: the next one need not wait for an end.
 * A client that is alone has all of it. */
static void note_client(Engine *e, uint64_t client, double now) {
    static const double SHARED = 600; /* seconds */
    if (e->any_client && client != e->last_client) e->shared_until = now + SHARED;
    e->any_client = true;
    e->last_client = client;
}

static Submit enqueue(Engine *e, Job *const *jobs, int n, double *retry_after) {
    if (e->draining) return SUBMIT_DRAINING;
    if (e->stats.damaged) return SUBMIT_DAMAGED;
    note_client(e, jobs[0]->client, jobs[0]->progress.submitted);
    if (!queue_make_room(&e->queue, jobs[0]->client, n, e->options.max_queue, &e->displaced)) {
        *retry_after = predicted_wait(e);
        return SUBMIT_QUEUE_FULL;
    }
    queue_add(&e->queue, jobs, n);
    pthread_cond_signal(&e->work);
    return SUBMIT_OK;
}

Submit engine_submit(Engine *e, Job *const *jobs, int n, double *retry_after) {
    double now = now_seconds();
    for (int i = 0; i < n; i++) {
        check_job(e, jobs[i]);
        if (!runner_holds(&e->runner, job_positions(jobs[i]->n_prompt, jobs[i]->max_tokens))) return SUBMIT_TOO_LONG;
        if (job_prepare(jobs[i], e->config)) return SUBMIT_NO_MEMORY;
        jobs[i]->progress.submitted = now;
        jobs[i]->metrics = e->options.metrics;
    }
    /* The engine may end a job before this function returns. */
    for (int i = 0; i < n; i++) atomic_fetch_add(&jobs[i]->references, 1);
    pthread_mutex_lock(&e->mutex);
    Submit result = enqueue(e, jobs, n, retry_after);
    pthread_mutex_unlock(&e->mutex);
    for (int i = 0; i < n && result != SUBMIT_OK; i++) job_release(jobs[i]);
    return result;
}

/* ---- the thread ---- */

static void beat(Engine *e) { atomic_store(&e->heartbeat, (uint64_t)(now_seconds() * 1e9)); }

static void wait_for_work(Engine *e) {
    while (!e->stopping && e->queue.n == 0 && e->runner.n_running == 0) {
        clock_wait(&e->work, &e->mutex, now_seconds() + 1);
        pthread_mutex_unlock(&e->mutex); /* it may have to read everything again */
        bool intact = shards_intact(e->files);
        beat(e);
        pthread_mutex_lock(&e->mutex);
        if (!intact) e->stats.damaged = true;
    }
}

typedef struct Moment {
    double now, queue_limit;
} Moment;

static bool past(double limit, double now) { return limit > 0 && now >= limit; }

static bool gives_up(const Job *job, const void *arg) {
    const Moment *m = arg;
    return atomic_load(&job->cancelled) || past(job->deadline, m->now) ||
           (m->queue_limit > 0 && m->now >= job->progress.submitted + m->queue_limit);
}

/* Jobs that ended before they began. */
static void finish_waiting(Engine *e, Job *job, double now) {
    for (Job *next; job; job = next) {
        next = job->next;
        if (atomic_load(&job->cancelled))
            runner_finish(&e->runner, job, FINISH_CANCELLED, NULL);
        else if (past(job->deadline, now))
            runner_finish(&e->runner, job, FINISH_DEADLINE, NULL);
        else if (job->displaced)
            runner_finish(&e->runner, job, FINISH_DISPLACED, NULL);
        else
            runner_finish(&e->runner, job, FINISH_ERROR, "the request waited too long in the queue");
    }
}

static Job *take_displaced(Engine *e) {
    Job *displaced = e->displaced;
    e->displaced = NULL;
    return displaced;
}

static bool may_run(uint64_t client, const void *engine) {
    const Engine *e = engine;
    const Runner *r = &e->runner;
    return runner_has_slot(r, client) && (now_seconds() >= e->shared_until || runner_spares(r, client));
}

/* The first whose turn it is waits for room; nobody overtakes it, or long prompts would wait for ever. */
static void admit(Engine *e) {
    double now = now_seconds();
    Moment moment = {.now = now, .queue_limit = e->options.queue_limit};
    int before = e->runner.n_running;
    Job *gone = queue_sweep(&e->queue, gives_up, &moment), *displaced = take_displaced(e);
    for (Job *job; (job = queue_next(&e->queue, may_run, e));) {
        if (!runner_admit(&e->runner, job)) break;
        queue_take(&e->queue, job);
    }
    BUG_ON(e->queue.n > 0 && e->runner.n_running == 0);
    int after = e->stats.running = e->runner.n_running;
    e->stats.kv_blocks_used = e->runner.pool.n_used;
    pthread_mutex_unlock(&e->mutex);
    for (int i = before; i < after; i++) job_start(e->runner.running[i]->job, now);
    finish_waiting(e, gone, now);
    finish_waiting(e, displaced, now);
    pthread_mutex_lock(&e->mutex);
}

static void count_step(Engine *e) {
    Metrics *m = e->options.metrics;
    const Runner *r = &e->runner;
    metrics_count(m, COUNT_STEPS, 1);
    metrics_count(m, COUNT_GUESSED, (uint64_t)r->step_guessed);
    metrics_count(m, COUNT_GUESSED_RIGHT, (uint64_t)r->step_right);
    metrics_observe(m, SIZE_STEP, r->step_tokens);
    phases_count(&e->runner.phases, m);
}

static void measure(Engine *e, int rows, double seconds) {
    const Runner *r = &e->runner;
    const double keep = 31.0 / 32;
    e->rate = (Rate){.rows = keep * e->rate.rows + rows, .seconds = keep * e->rate.seconds + seconds};
    e->stats.steps += rows > 0;
    e->stats.threads = r->team_size.size;
    e->stats.running = r->n_running;
    e->stats.kv_blocks_used = r->pool.n_used;
    e->stats.prompt_tokens = r->prompt_tokens;
    e->stats.generated_tokens = r->generated_tokens;
    e->stats.jobs_done = r->jobs_done;
    e->stats.jobs_cancelled = r->jobs_cancelled;
}

static bool any(const Job *job, const void *arg) {
    (void)job, (void)arg;
    return true;
}

/* For an engine that takes no new jobs; called with the mutex. */
static void end_all(Engine *e, Finish finish) {
    Job *waiting = queue_sweep(&e->queue, any, NULL), *displaced = take_displaced(e);
    pthread_mutex_unlock(&e->mutex);
    runner_end_all(&e->runner, finish);
    finish_waiting(e, displaced, now_seconds());
    for (Job *next; waiting; waiting = next) {
        next = waiting->next;
        runner_finish(&e->runner, waiting, finish, NULL);
    }
    pthread_mutex_lock(&e->mutex);
    measure(e, 0, 0);
}

typedef struct WarmUp {
    Runner *runner;
    bool finite;
} WarmUp;

static void warm_up(void *arg) {
    WarmUp *w = arg;
    w->finite = runner_warm_up(w->runner);
}

static void *engine_main(void *arg) {
    Engine *e = arg;
    team_resize(e->options.threads);
    WarmUp w = {.runner = &e->runner};
    if (!e->options.spare) {
        warm_up(&w);
    } else if (!memory_survives(warm_up, &w)) {
        pthread_mutex_lock(&e->mutex);
        e->draining = e->stats.no_memory = true;
        pthread_mutex_unlock(&e->mutex);
        beat(e);
        return NULL;
    }
    alloc_forbid(true); /* all memory there will ever be is there */
    bool intact = shards_intact(e->files);
    pthread_mutex_lock(&e->mutex);
    e->stats.threads = e->runner.team_size.size;
    e->stats.damaged = !intact;
    e->stats.broken = !w.finite;
    beat(e);
    phases_begin(&e->runner.phases);
    for (;;) {
        wait_for_work(e);
        phase_ends(&e->runner.phases, TIME_STEP_WAIT);
        if (e->stopping) break;
        if (e->stats.damaged) {
            end_all(e, FINISH_DAMAGED);
            continue;
        }
        admit(e);
        pthread_mutex_unlock(&e->mutex);
        double start = now_seconds();
        int rows = runner_step(&e->runner);
        double now = now_seconds(), seconds = now - start;
        if (rows > 0) count_step(e);
        if (rows > 0 && !e->options.keep_threads) team_size_observe(&e->runner.team_size, rows, seconds, now);
        beat(e);
        pthread_mutex_lock(&e->mutex);
        if (rows < 0) e->stats.damaged = true;
        measure(e, rows, seconds);
    }
    end_all(e, FINISH_CANCELLED);
    pthread_mutex_unlock(&e->mutex);
    alloc_forbid(false);
    return NULL;
}

/* ---- life ---- */

static int check_options(const EngineOptions *o, Err *err) {
    const struct {
        const char *name;
        int value, min, max;
    } ranges[] = {
        {"threads", o->threads, 0, 1024},
        {"max_batch", o->max_batch, 1, 4096},
        {"prefill_chunk", o->prefill_chunk, 1, 65536},
        {"max_queue", o->max_queue, 1, 1 << 20},
        {"kv_tokens", o->kv_tokens, 0, 1 << 30},
    };
    for (size_t i = 0; i < COUNTOF(ranges); i++)
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
            return err_set(err, "%s is %d, must be %d to %d", ranges[i].name, ranges[i].value, ranges[i].min,
                           ranges[i].max);
    if (o->kv_dtype != DTYPE_F32 && o->kv_dtype != DTYPE_BF16)
        return err_set(err, "the cache cannot be %s, only F32 or BF16", dtype_name(o->kv_dtype));
    return 0;
}

static void engine_free(Engine *e) {
    runner_free(&e->runner);
    pthread_mutex_destroy(&e->mutex);
    pthread_cond_destroy(&e->work);
    free(e);
}

typedef struct Start {
    Runner *runner;
    const Checkpoint *checkpoint;
    const EngineOptions *options;
    Err *err;
    int rc;
} Start;

static void init_runner(void *arg) {
    Start *s = arg;
    s->rc = runner_init(s->runner, s->checkpoint, s->options, s->err);
}

int engine_start(Engine **out, const Checkpoint *checkpoint, const EngineOptions *options, Err *err) {
    *out = NULL;
    if (check_options(options, err)) return -1;
    int threads = options->threads ? options->threads : team_size(), refused = team_size_try(threads);
    if (refused) return err_set(err, "the system does not give %d threads: %s", threads, strerror(refused));
    const Config *c = &checkpoint->model.cfg;
    Engine *e = xcalloc(1, sizeof *e);
    *e = (Engine){.options = *options, .config = c, .files = &checkpoint->shards};
    Start start = {.runner = &e->runner, .checkpoint = checkpoint, .options = options, .err = err, .rc = -1};
    if (!memory_survives(init_runner, &start)) err_set(err, "no memory for the engine");
    if (start.rc) {
        runner_free(&e->runner);
        free(e);
        return -1;
    }
    e->stats.kv_blocks = e->runner.pool.n;
    e->stats.kv_type = dtype_name(options->kv_dtype);
    atomic_init(&e->heartbeat, 0);
    pthread_mutex_init(&e->mutex, NULL);
    clock_cond_init(&e->work);
    int rc = pthread_create(&e->thread, NULL, engine_main, e);
    if (rc) {
        engine_free(e);
        return err_set(err, "cannot start the engine's thread: error %d", rc);
    }
    *out = e;
    return 0;
}

double engine_wait(Engine *e) {
    pthread_mutex_lock(&e->mutex);
    double wait = predicted_wait(e);
    pthread_mutex_unlock(&e->mutex);
    return wait;
}

void engine_drain(Engine *e) {
    pthread_mutex_lock(&e->mutex);
    e->draining = true;
    pthread_mutex_unlock(&e->mutex);
}

void engine_stop(Engine *e) {
    if (!e) return;
    pthread_mutex_lock(&e->mutex);
    e->draining = e->stopping = true;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->mutex);
    pthread_join(e->thread, NULL);
    engine_free(e);
}

EngineStats engine_stats(Engine *e) {
    pthread_mutex_lock(&e->mutex);
    EngineStats stats = e->stats;
    stats.queued = e->queue.n;
    stats.wait = e->queue.n ? predicted_wait(e) : 0;
    pthread_mutex_unlock(&e->mutex);
    uint64_t beat_at = atomic_load(&e->heartbeat);
    stats.heartbeat_age = beat_at ? now_seconds() - 1e-9 * (double)beat_at : INFINITY;
    return stats;
}
