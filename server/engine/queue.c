#include "server/engine/queue.h"

#include "base/err.h"

static int64_t rows_of(const Job *job) { return (int64_t)job->n_prompt + job->max_tokens; }

void queue_add(Queue *q, Job *const *jobs, int n) {
    uint64_t round = q->round, request = ++q->requests;
    for (const Job *job = q->first; job; job = job->next)
        if (job->client == jobs[0]->client) round = job->round;
    Job **at = &q->first;
    for (int i = 0; i < n; i++) {
        Job *job = jobs[i];
        BUG_ON(job->client != jobs[0]->client);
        job->request = request;
        job->round = ++round;
        while (*at && (*at)->round <= round) at = &(*at)->next;
        job->next = *at;
        *at = job;
        q->rows += rows_of(job);
    }
    q->n += n;
}

static Job *unlink_job(Queue *q, Job **at) {
    Job *job = *at;
    *at = job->next;
    job->next = NULL;
    q->n--;
    q->rows -= rows_of(job);
    return job;
}

Job *queue_next(const Queue *q, bool (*may)(uint64_t client, const void *arg), const void *arg) {
    Job *job = q->first;
    while (job && !may(job->client, arg))
        for (uint64_t client = job->client; job && job->client == client;) job = job->next;
    return job;
}

void queue_take(Queue *q, Job *job) {
    Job **at = &q->first;
    while (*at != job) at = &(*at)->next;
    unlink_job(q, at);
    /* One that is taken before others, whose clients have all that they may, says nothing of their rounds. */
    if (!q->first || q->first->round >= job->round) q->round = MAX(q->round, job->round);
    for (Job *other = q->first; other && !job->begun; other = other->next)
        if (other->request == job->request) other->begun = true;
}

Job *queue_sweep(Queue *q, bool (*remove)(const Job *job, const void *arg), const void *arg) {
    Job *removed = NULL, **end = &removed;
    for (Job **at = &q->first; *at;) {
        if (!remove(*at, arg)) {
            at = &(*at)->next;
            continue;
        }
        *end = unlink_job(q, at);
        end = &(*end)->next;
    }
    return removed;
}

/* ---- making room ---- */

static int waiting_of(const Queue *q, uint64_t client) {
    int n = 0;
    for (const Job *job = q->first; job; job = job->next) n += job->client == client && !job->displaced;
    return n;
}

/* Of the request that leaves next. Who has the most waiting has the last rounds, its newest request at their end. */
static const Job *last_of_others(const Queue *q, uint64_t client) {
    const Job *last = NULL;
    for (const Job *job = q->first; job; job = job->next)
        if (job->client != client && !job->begun && !job->displaced) last = job;
    return last;
}

static bool is_displaced(const Job *job, const void *arg) {
    (void)arg;
    return job->displaced;
}

bool queue_make_room(Queue *q, uint64_t client, int n, int most, Job **displaced) {
    int left = q->n, own = waiting_of(q, client) + n;
    const Job *last;
    while (left + n > most && (last = last_of_others(q, client)) && waiting_of(q, last->client) > own) {
        for (Job *job = q->first; job; job = job->next) {
            if (job->request != last->request) continue;
            job->displaced = true;
            left--;
        }
    }
    bool room = left + n <= most;
    for (Job *job = q->first; job && !room; job = job->next) job->displaced = false;
    Job *before = *displaced, **end = displaced;
    *displaced = queue_sweep(q, is_displaced, NULL);
    while (*end) end = &(*end)->next;
    *end = before;
    return room;
}
