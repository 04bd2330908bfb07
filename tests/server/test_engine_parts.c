/* The queue and the block pool by themselves. */
#include "base/random.h"
#include "server/engine/kv_pool.h"
#include "server/engine/queue.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <string.h>

/* ---- queue ---- */

static Job *tenants_job(uint64_t tenant) {
    Job *job = test_job(0, 1, 1, -1, false);
    job->tenant = tenant;
    return job;
}

/* Takes everything: the tenants' digits in the order of service. */
static uint64_t drain(Queue *q) {
    uint64_t order = 0;
    while (q->n > 0) {
        Job *job = queue_take(q);
        order = order * 10 + job->tenant;
        job_release(job);
    }
    CHECK(!q->first && q->rows == 0);
    return order;
}

static void add(Queue *q, uint64_t tenant, int n) {
    Job *jobs[16];
    for (int i = 0; i < n; i++) jobs[i] = tenants_job(tenant);
    queue_add(q, jobs, n);
}

TEST(queue_takes_fair_turns) {
    Queue q = {0};
    add(&q, 1, 5);
    add(&q, 2, 2);
    add(&q, 3, 1);
    CHECK(drain(&q) == 12312111);
    add(&q, 1, 3);
    job_release(queue_take(&q));
    add(&q, 2, 1); /* waits for one job of tenant 1, not for all */
    add(&q, 1, 1);
    CHECK(drain(&q) == 1211);
}

/* A tenant that comes back after each job does not push aside one that has several waiting, nor the other way round. */
TEST(queue_is_fair_to_those_who_come_back) {
    Queue q = {0};
    add(&q, 2, 5);
    add(&q, 1, 1);
    uint64_t order = 0;
    for (int i = 0; i < 8; i++) {
        Job *job = queue_take(&q);
        order = order * 10 + job->tenant;
        if (job->tenant == 1) add(&q, 1, 1);
        job_release(job);
    }
    CHECK_MSG(order == 21212121, "order %llu", (unsigned long long)order);
    drain(&q);
}

static bool of_tenant(const Job *job, const void *arg) { return job->tenant == *(const uint64_t *)arg; }

TEST(queue_sweeps) {
    Queue q = {0};
    uint64_t tenant = 2;
    add(&q, 2, 1);
    add(&q, 1, 2);
    add(&q, 2, 2);
    Job *gone = queue_sweep(&q, of_tenant, &tenant);
    for (int i = 0; i < 3; i++) {
        Job *next = gone->next;
        CHECK(gone->tenant == 2);
        job_release(gone);
        gone = next;
    }
    CHECK(!gone && q.n == 2 && q.rows == 4);
    CHECK(drain(&q) == 11);
}

/* ---- pool ---- */

typedef struct Holder {
    int table[8], n, n_shared;
    bool held;
    int prompt[8 * KV_BLOCK];
    PrefixKey key;
} Holder;

/* What must hold between any two calls. */
static void check_pool(const KvPool *p, const Holder *h, int n_holders, int round) {
    int references[64] = {0}, used = 0, unused = 0;
    for (int i = 0; i < n_holders; i++)
        for (int b = 0; h[i].held && b < h[i].n; b++) references[h[i].table[b]]++;
    for (int b = 0; b < p->n; b++) {
        CHECK_MSG(references[b] == p->blocks[b].references, "round %d: block %d", round, b);
        CHECK_MSG(references[b] || !p->blocks[b].shared || p->blocks[b].ready, "round %d: block %d kept", round, b);
        used += references[b] > 0;
    }
    for (int b = p->oldest; b >= 0; b = p->blocks[b].newer) unused++;
    CHECK_MSG(used == p->n_used && unused == p->n - used, "round %d: %d used, %d unused, pool says %d", round, used,
              unused, p->n_used);
}

/* Blocks in common are exactly those of equal prefixes under equal keys. */
static void check_sharing(const Holder *a, const Holder *b, int round) {
    bool same_key = a->key.tenant == b->key.tenant && a->key.noise_seed == b->key.noise_seed;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            bool equal = same_key && i == j && i < a->n_shared && i < b->n_shared &&
                         !memcmp(a->prompt, b->prompt, (size_t)(i + 1) * KV_BLOCK * sizeof(int));
            CHECK_MSG((a->table[i] == b->table[j]) == equal, "round %d: blocks %d and %d", round, i, j);
        }
}

static void draw_holder(Holder *h, Draws *d) {
    h->n = (int)draw_below(d, 9);
    h->n_shared = (int)draw_below(d, (uint64_t)h->n + 1);
    h->key = (PrefixKey){.tenant = draw_below(d, 2), .noise_seed = draw_below(d, 2)};
    for (int b = 0; b < h->n; b++) {
        int token = (int)draw_below(d, 2);
        for (int i = 0; i < KV_BLOCK; i++) h->prompt[b * KV_BLOCK + i] = token;
    }
}

TEST(kv_pool_random_life) {
    enum { BLOCKS = 24, HOLDERS = 9 };
    static Holder h[HOLDERS];
    KvPool p;
    kv_pool_init(&p, BLOCKS);
    Draws d = draws_open(5, DRAW_TEST, 1);
    int refused = 0, ready = 0;
    for (int round = 0; round < 20000; round++) {
        Holder *x = &h[draw_below(&d, HOLDERS)];
        if (x->held) {
            for (int b = 0; b < x->n_shared && draw_below(&d, 4); b++) p.blocks[x->table[b]].ready = true;
            kv_pool_release(&p, x->table, x->n);
            x->held = false;
        } else {
            draw_holder(x, &d);
            x->held = kv_pool_take(&p, x->table, x->n, x->prompt, x->n_shared, &x->key);
            refused += !x->held;
            for (int b = 0; x->held && b < x->n_shared; b++) ready += p.blocks[x->table[b]].ready;
        }
        if (round % 16) continue;
        check_pool(&p, h, HOLDERS, round);
        for (int i = 0; i < HOLDERS; i++)
            for (int j = 0; j < i; j++)
                if (h[i].held && h[j].held) check_sharing(&h[i], &h[j], round);
    }
    CHECK_MSG(refused > 100 && ready > 1000, "%d refused, %d ready: shows little", refused, ready);
    for (int i = 0; i < HOLDERS; i++)
        if (h[i].held) kv_pool_release(&p, h[i].table, h[i].n);
    CHECK(p.n_used == 0);
    kv_pool_free(&p);
}

/* The least recently used prefix goes first, and of one prefix the end before the beginning. */
TEST(kv_pool_forgets_the_oldest) {
    KvPool p;
    int a[3], b[3], c[2], prompt_a[3 * KV_BLOCK], prompt_b[3 * KV_BLOCK];
    PrefixKey key = {0};
    for (int i = 0; i < 3 * KV_BLOCK; i++) prompt_a[i] = i, prompt_b[i] = 1000 + i;
    kv_pool_init(&p, 6);
    CHECK(kv_pool_take(&p, a, 3, prompt_a, 3, &key) && kv_pool_take(&p, b, 3, prompt_b, 3, &key));
    for (int i = 0; i < 6; i++) p.blocks[i].ready = true;
    kv_pool_release(&p, a, 3);
    kv_pool_release(&p, b, 3);
    CHECK(kv_pool_take(&p, c, 2, NULL, 0, &key));
    CHECK(c[0] == a[2] && c[1] == a[1] && p.blocks[a[0]].shared && p.blocks[b[2]].shared);
    CHECK(!kv_pool_take(&p, b, 5, NULL, 0, &key) && p.n_used == 2);
    kv_pool_release(&p, c, 2);
    CHECK(p.n_used == 0);
    kv_pool_free(&p);
}
