#include "server/quota.h"

#include "base/err.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const double MINUTE = 60; /* seconds */

void quota_open(Quota *q, QuotaLimits limits) { *q = (Quota){.limits = limits, .mutex = PTHREAD_MUTEX_INITIALIZER}; }

void quota_close(Quota *q) {
    free(q->uses);
    pthread_mutex_destroy(&q->mutex);
}

static QuotaUse unused(const Quota *q, uint64_t key, double now) {
    return (QuotaUse){.key = key, .requests = q->limits.requests, .tokens = q->limits.tokens, .at = now};
}

static double filled(double left, int limit, double seconds) { return MIN(left + limit * seconds / MINUTE, limit); }

static QuotaUse at(const Quota *q, const QuotaUse *use, double now) {
    QuotaUse u = *use;
    u.requests = filled(u.requests, q->limits.requests, now - u.at);
    u.tokens = filled(u.tokens, q->limits.tokens, now - u.at);
    u.at = now;
    return u;
}

static bool is_whole(const Quota *q, const QuotaUse *use, double now) {
    QuotaUse u = at(q, use, now);
    return u.requests >= q->limits.requests && u.tokens >= q->limits.tokens;
}

/* What the key has now: its own place, or one that is made for it; NULL when memory runs out. */
static QuotaUse *find(Quota *q, uint64_t key, double now) {
    QuotaUse *place = NULL;
    for (int i = 0; i < q->n; i++) {
        QuotaUse *use = &q->uses[i];
        if (use->key == key) {
            *use = at(q, use, now);
            return use;
        }
        if (is_whole(q, use, now)) place = use;
    }
    if (!place) {
        QuotaUse *uses = try_realloc(q->uses, (size_t)(q->n + 1) * sizeof *uses);
        if (!uses) return NULL;
        q->uses = uses;
        place = &q->uses[q->n++];
    }
    *place = unused(q, key, now);
    return place;
}

/* Seconds until one is left; 0 where there is one or no limit. */
static double wait_for_one(double left, int limit) { return limit && left < 1 ? (1 - left) * MINUTE / limit : 0; }

static int refuse(const char *what, int limit, double wait, ApiError *e) {
    api_fail(e, 429, "rate_limit_exceeded", NULL, "this key has used up its %d %s a minute", limit, what);
    e->retry_after = wait;
    return -1;
}

int quota_request(Quota *q, uint64_t key, double now, ApiError *e) {
    QuotaLimits most = q->limits;
    if (!most.requests && !most.tokens) return 0;
    pthread_mutex_lock(&q->mutex);
    QuotaUse *use = find(q, key, now);
    int rc = use ? 0 : api_no_memory(e);
    double requests = use ? wait_for_one(use->requests, most.requests) : 0;
    double tokens = use ? wait_for_one(use->tokens, most.tokens) : 0;
    if (requests > 0 && requests >= tokens)
        rc = refuse("requests", most.requests, requests, e);
    else if (tokens > 0)
        rc = refuse("tokens", most.tokens, tokens, e);
    if (rc == 0) use->requests -= most.requests > 0;
    pthread_mutex_unlock(&q->mutex);
    return rc;
}

int quota_still(Quota *q, uint64_t key, double now, ApiError *e) {
    QuotaLimits most = q->limits;
    if (!most.tokens) return 0;
    pthread_mutex_lock(&q->mutex);
    QuotaUse *use = find(q, key, now);
    double tokens = use ? wait_for_one(use->tokens, most.tokens) : 0;
    int rc = !use ? api_no_memory(e) : tokens > 0 ? refuse("tokens", most.tokens, tokens, e) : 0;
    if (use && rc) use->requests += most.requests > 0;
    pthread_mutex_unlock(&q->mutex);
    return rc;
}

void quota_tokens(Quota *q, uint64_t key, double now, int64_t tokens) {
    if (!q->limits.tokens) return;
    pthread_mutex_lock(&q->mutex);
    QuotaUse *use = find(q, key, now);
    if (use) use->tokens -= (double)tokens; /* above the limit until somebody looks */
    pthread_mutex_unlock(&q->mutex);
}

static void print(Buffer *out, const char *what, int limit, double left) {
    if (!limit) return;
    buffer_print(out, "x-ratelimit-limit-%s: %d\r\nx-ratelimit-remaining-%s: %.0f\r\nx-ratelimit-reset-%s: %.3fs\r\n",
                 what, limit, what, MAX(floor(left), 0), what, (limit - left) * MINUTE / limit);
}

void quota_headers(Quota *q, uint64_t key, double now, Buffer *out) {
    QuotaUse left = unused(q, key, now);
    pthread_mutex_lock(&q->mutex);
    for (int i = 0; i < q->n; i++)
        if (q->uses[i].key == key) left = at(q, &q->uses[i], now);
    pthread_mutex_unlock(&q->mutex);
    print(out, "requests", q->limits.requests, left.requests);
    print(out, "tokens", q->limits.tokens, left.tokens);
}
