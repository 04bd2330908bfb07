#include "trainer/ranks/ranks.h"

#include "base/memory.h"

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

int ranks_refuse(Err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, ranks->rank ? "" : fmt, ap);
    va_end(ap);
    return -1;
}

int ranks_levels(int64_t leaves) {
    int levels = 0;
    while ((int64_t)1 << levels < leaves) levels++;
    return levels;
}

RankShare ranks_share(int64_t micro_batches, int rank, int n) {
    int64_t most = ((int64_t)1 << ranks_levels(micro_batches)) / n, first = rank * most;
    return (RankShare){.first = first, .n = MAX(0, MIN(most, micro_batches - first)), .most = most};
}

int ranks_check(int64_t micro_batches, int n, Err *err) {
    char list[256] = "1";
    size_t used = 1;
    for (int64_t fits = 1; fits <= (int64_t)1 << ranks_levels(micro_batches); fits *= 2) {
        if (n == fits) return 0;
        if (fits > 1) used += (size_t)snprintf(list + used, sizeof list - used, ", %lld", (long long)fits);
    }
    return ranks_refuse(err, "%d ranks cannot share a step of --accumulate %lld: %s can", n, (long long)micro_batches,
                        list);
}
