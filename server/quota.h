/* quota: how many requests and tokens a key may use a minute, each counted by a token bucket. A bucket holds a minute's
 * worth, is full at first and fills all the time, so that there is no minute whose turn everybody waits for; `now` is
 * the monotonic clock's, so that a clock that is set locks nobody out.
 *
 * A request begins where its key has one request and one token left. What it may use at most is taken from the tokens
 * then, below zero if need be, and what it did not use is given back at its end: no number of requests at once gets
 * more than one request beyond the limit for each thread that reads bodies, and that is paid back by waiting. Any
 * thread. */
#ifndef NOISED_QUOTA_H
#define NOISED_QUOTA_H

#include "server/api/error.h"

#include <pthread.h>

typedef struct QuotaLimits {
    int requests, tokens; /* a minute and key; 0: any number */
} QuotaLimits;

/* A key whose buckets are full is not remembered. */
typedef struct QuotaUse {
    uint64_t key;
    double requests, tokens; /* left at `at` */
    double at;               /* seconds; what now_seconds() was */
} QuotaUse;

typedef struct Quota {
    QuotaLimits limits;
    pthread_mutex_t mutex; /* guards what follows */
    QuotaUse *uses;        /* [n] */
    int n;
} Quota;

void quota_open(Quota *q, QuotaLimits limits);
void quota_close(Quota *q);

/* Takes one request; -1 with e filled, a 429, and nothing taken where the key has none or no token left. */
int quota_request(Quota *q, uint64_t key, double now, ApiError *e);
/* For one whose body waited to be read: the same 429, and its request given back, where others have taken the last
 * token meanwhile. */
int quota_still(Quota *q, uint64_t key, double now, ApiError *e);
void quota_tokens(Quota *q, uint64_t key, double now, int64_t tokens); /* below 0: given back */

/* OpenAI's x-ratelimit- lines, of what is limited: the limit, what is left of it and after how long it is whole. */
void quota_headers(Quota *q, uint64_t key, double now, Buffer *out);

#endif
