#include "trainer/ranks/ranks.h"

#include "base/memory.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void gather_one(const void *mine, size_t n, void *all) { memcpy(all, mine, n); }

static const Ranks one = {.n = 1, .gather = gather_one};

const Ranks *ranks = &one;

int ranks_most(int mine) {
    int *all = xcalloc((size_t)ranks->n, sizeof *all), most = mine;
    ranks->gather(&mine, sizeof mine, all);
    for (int i = 0; i < ranks->n; i++) most = MAX(most, all[i]);
    free(all);
    return most;
}

void ranks_wait(void) { ranks_most(0); }

int ranks_on_host(void) {
    char(*all)[RANK_HOST] = xcalloc((size_t)ranks->n, sizeof *all);
    int here = 0;
    ranks->gather(ranks->host, sizeof ranks->host, all);
    for (int i = 0; i < ranks->n; i++) here += !strcmp(all[i], ranks->host);
    free(all);
    return here;
}

void ranks_follow(void *data, size_t n) {
    char *all = xmalloc((size_t)ranks->n * n);
    ranks->gather(data, n, all);
    memcpy(data, all, n);
    free(all);
}

int ranks_refuse(Err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, ranks->rank ? "" : fmt, ap);
    va_end(ap);
    return -1;
}

typedef struct Outcome {
    int rc;
    char host[RANK_HOST];
    Err err;
} Outcome;

int ranks_settle(int rc, Err *err) {
    if (ranks->n == 1) return rc;
    Outcome *all = xcalloc((size_t)ranks->n + 1, sizeof *all), *mine = all + ranks->n;
    mine->rc = rc;
    memcpy(mine->host, ranks->host, sizeof mine->host);
    if (rc) mine->err = *err;
    ranks->gather(mine, sizeof *mine, all);
    int odd = 0;
    while (odd < ranks->n && !all[odd].rc) odd++;
    if (odd == 0)
        rc = ranks_refuse(err, "%s", all[0].err.msg);
    else if (odd < ranks->n)
        rc = ranks_refuse(err, "rank %d on %s: %s", odd, all[odd].host, all[odd].err.msg);
    free(all);
    return rc;
}

RankShare ranks_share(int64_t all, int k, int n) {
    int64_t first = all * k / n;
    return (RankShare){.first = first, .n = all * (k + 1) / n - first};
}

int64_t *ranks_starts(int64_t all) {
    int64_t *starts = xcalloc((size_t)ranks->n + 1, sizeof *starts);
    for (int r = 0; r < ranks->n; r++) starts[r] = ranks_share(all, r, ranks->n).first;
    starts[ranks->n] = all;
    return starts;
}

void ranks_collect(void *data, size_t size, const int64_t *starts) {
    if (ranks->n == 1) return;
    BUG_ON(starts[ranks->n] > INT_MAX / (int64_t)size);
    int *bytes = xcalloc((size_t)ranks->n, sizeof *bytes);
    for (int r = 0; r < ranks->n; r++) bytes[r] = (int)((starts[r + 1] - starts[r]) * (int64_t)size);
    ranks->spread(data, bytes);
    free(bytes);
}

int ranks_check(int64_t micro_batches, int n, Err *err) {
    if (n <= micro_batches) return 0;
    return ranks_refuse(err, "%d ranks cannot share a step of --accumulate %lld: %lld can at most", n,
                        (long long)micro_batches, (long long)micro_batches);
}
