/* The queue, the block pool and what an engine takes, by themselves. */
#include "base/random.h"
#include "server/engine/kv_pool.h"
#include "server/engine/queue.h"
#include "server/engine/runner.h"
#include "server/engine/scheduler.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <string.h>

/* ---- queue ---- */

static Job *job_of(uint64_t client) {
    Job *job = test_job(0, 1, 1, -1, false);
    job->client = client;
    return job;
}

/* Takes everything: the clients' digits in the order of service. */
static uint64_t drain(Queue *q) {
    uint64_t order = 0;
    while (q->n > 0) {
        Job *job = q->first;
        queue_take(q, job);
        order = order * 10 + job->client;
        job_release(job);
    }
    CHECK(!q->first && q->rows == 0);
    return order;
}

static void add(Queue *q, uint64_t client, int n) {
    Job *jobs[16];
    for (int i = 0; i < n; i++) jobs[i] = job_of(client);
    queue_add(q, jobs, n);
}

TEST(queue_takes_fair_turns) {
    Queue q = {0};
    add(&q, 1, 5);
    add(&q, 2, 2);
    add(&q, 3, 1);
    CHECK(drain(&q) == 12312111);
    add(&q, 1, 3);
    Job *job = q.first;
    queue_take(&q, job);
    job_release(job);
    add(&q, 2, 1); /* waits for one job of client 1, not for all */
    add(&q, 1, 1);
    CHECK(drain(&q) == 1211);
}

/* A client that comes back after each job does not push aside one that has several waiting, nor the other way round. */
TEST(queue_is_fair_to_those_who_come_back) {
    Queue q = {0};
    add(&q, 2, 5);
    add(&q, 1, 1);
    uint64_t order = 0;
    for (int i = 0; i < 8; i++) {
        Job *job = q.first;
        queue_take(&q, job);
        order = order * 10 + job->client;
        if (job->client == 1) add(&q, 1, 1);
        job_release(job);
    }
    CHECK_MSG(order == 21212121, "order %llu", (unsigned long long)order);
    drain(&q);
}

static bool of_client(const Job *job, const void *arg) { return job->client == *(const uint64_t *)arg; }

TEST(queue_sweeps) {
    Queue q = {0};
    uint64_t client = 2;
    add(&q, 2, 1);
    add(&q, 1, 2);
    add(&q, 2, 2);
    Job *gone = queue_sweep(&q, of_client, &client);
    for (int i = 0; i < 3; i++) {
        Job *next = gone->next;
        CHECK(gone->client == 2);
        job_release(gone);
        gone = next;
    }
    CHECK(!gone && q.n == 2 && q.rows == 4);
    CHECK(drain(&q) == 11);
}

/* ---- pool ---- */

enum { POOL_BLOCKS = 24, HOLDERS = 9, HOLDER_BLOCKS = 8 };

typedef struct Holder {
    int table[HOLDER_BLOCKS], n, n_prompt;
    bool held;
    int prompt[HOLDER_BLOCKS * KV_BLOCK];
    PrefixKey key;
} Holder;

/* What stands for keys and values: a row is a hash of all that they depend on. */
typedef struct Rows {
    uint64_t at[POOL_BLOCKS][KV_BLOCK];
} Rows;

static uint64_t row_of(const Holder *h, int position) {
    uint64_t hash = 1 + h->key.tenant * 2 + h->key.noise_seed;
    for (int i = 0; i <= position; i++) hash = (hash + (uint64_t)h->prompt[i] + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return hash;
}

/* What must hold between any two calls. */
static void check_pool(const KvPool *p, const Holder *h, int n_holders, int round) {
    int references[POOL_BLOCKS] = {0}, used = 0, unused = 0;
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

/* Blocks in common are exactly the whole ones of equal prefixes under equal keys. */
static void check_sharing(const Holder *a, const Holder *b, int round) {
    bool same_key = a->key.tenant == b->key.tenant && a->key.noise_seed == b->key.noise_seed;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            int end = (i + 1) * KV_BLOCK;
            bool equal = same_key && i == j && end <= a->n_prompt && end <= b->n_prompt &&
                         !memcmp(a->prompt, b->prompt, (size_t)end * sizeof(int));
            CHECK_MSG((a->table[i] == b->table[j]) == equal, "round %d: blocks %d and %d", round, i, j);
        }
}

/* Prompts that part, and end, anywhere in a block. */
static void draw_holder(Holder *h, Draws *d) {
    h->n = (int)draw_below(d, HOLDER_BLOCKS + 1);
    h->n_prompt = (int)draw_below(d, (uint64_t)h->n * KV_BLOCK + 1);
    h->key = (PrefixKey){.tenant = draw_below(d, 2), .noise_seed = draw_below(d, 2)};
    for (int b = 0; b < h->n; b++) {
        int token = (int)draw_below(d, 2), part = (int)draw_below(d, 4 * KV_BLOCK);
        for (int i = 0; i < KV_BLOCK; i++) h->prompt[b * KV_BLOCK + i] = i < part ? token : token + 2;
    }
}

/* The first n rows of a prompt are what they should be. */
static void check_rows(const Holder *h, const Rows *rows, int n, int round) {
    for (int i = 0; i < n; i++)
        CHECK_MSG(rows->at[h->table[i / KV_BLOCK]][i % KV_BLOCK] == row_of(h, i), "round %d: row %d of %d", round, i,
                  h->n_prompt);
}

/* Takes blocks and copies what is to be copied; how many rows that were. */
static int hold(KvPool *p, Holder *h, Rows *rows, int round) {
    PoolPrefix found;
    h->held = kv_pool_take(p, h->table, h->n, h->prompt, h->n_prompt, &h->key, &found);
    if (!h->held || !found.copy_rows) return 0;
    memcpy(rows->at[h->table[found.n_blocks]], rows->at[found.copy_from], sizeof rows->at[0]);
    kv_pool_release(p, &found.copy_from, 1);
    CHECK(found.copy_rows < KV_BLOCK && found.n_blocks * KV_BLOCK + found.copy_rows < h->n_prompt);
    check_rows(h, rows, found.n_blocks * KV_BLOCK + found.copy_rows, round);
    return found.copy_rows;
}

/* A job that gets as far as row `end`, where generated rows follow the prompt's. */
static void compute(KvPool *p, Holder *h, Rows *rows, int end) {
    for (int i = 0; i < end; i++) {
        PoolBlock *k = &p->blocks[h->table[i / KV_BLOCK]];
        rows->at[h->table[i / KV_BLOCK]][i % KV_BLOCK] = i < h->n_prompt ? row_of(h, i) : 0;
        if (k->shared && i % KV_BLOCK == k->n_tokens - 1 && i < h->n_prompt) k->ready = true;
    }
}

/* In one bucket keys meet that the hash would keep apart, and only comparing does. */
static void live_at_random(bool one_bucket) {
    static Holder h[HOLDERS];
    static Rows rows;
    KvPool p;
    kv_pool_init(&p, POOL_BLOCKS);
    if (one_bucket) p.n_buckets = 1;
    Draws d = draws_open(5, DRAW_TEST, 1);
    int refused = 0, ready = 0, copied = 0;
    for (int round = 0; round < 20000; round++) {
        Holder *x = &h[draw_below(&d, HOLDERS)];
        if (x->held) {
            bool to_the_end = draw_below(&d, 4) > 0;
            int all = x->n * KV_BLOCK, end = to_the_end ? all : (int)draw_below(&d, (uint64_t)all + 1);
            compute(&p, x, &rows, end);
            check_rows(x, &rows, MIN(end, x->n_prompt), round);
            kv_pool_release(&p, x->table, x->n);
            x->held = false;
        } else {
            draw_holder(x, &d);
            copied += hold(&p, x, &rows, round);
            refused += !x->held;
            for (int b = 0; x->held && (b + 1) * KV_BLOCK <= x->n_prompt && p.blocks[x->table[b]].ready; b++, ready++)
                check_rows(x, &rows, (b + 1) * KV_BLOCK, round);
        }
        if (round % 16) continue;
        check_pool(&p, h, HOLDERS, round);
        for (int i = 0; i < HOLDERS; i++)
            for (int j = 0; j < i; j++)
                if (h[i].held && h[j].held) check_sharing(&h[i], &h[j], round);
    }
    CHECK_MSG(refused > 100 && ready > 1000 && copied > 10000, "%d refused, %d ready, %d rows copied: shows little",
              refused, ready, copied);
    for (int i = 0; i < HOLDERS; i++)
        if (h[i].held) kv_pool_release(&p, h[i].table, h[i].n), h[i].held = false;
    CHECK(p.n_used == 0);
    kv_pool_free(&p);
}

TEST(kv_pool_random_life) { live_at_random(false); }
TEST(kv_pool_random_life_in_one_bucket) { live_at_random(true); }

/* A prompt that comes again and again does not fill the cache with copies of its end. */
TEST(kv_pool_keeps_one_end) {
    KvPool p;
    PrefixKey key = {0};
    PoolPrefix found;
    int prompt[40], table[2];
    for (int i = 0; i < 40; i++) prompt[i] = i;
    kv_pool_init(&p, 6);
    for (int round = 0; round < 5; round++) {
        int shared = 0;
        CHECK(kv_pool_take(&p, table, 2, prompt, 40, &key, &found));
        CHECK(found.n_blocks == (round > 0) && found.copy_rows == (round > 0 ? 7 : 0));
        if (found.copy_rows) kv_pool_release(&p, &found.copy_from, 1);
        for (int b = 0; b < 2; b++) p.blocks[table[b]].ready = p.blocks[table[b]].shared;
        kv_pool_release(&p, table, 2);
        for (int b = 0; b < p.n; b++) shared += p.blocks[b].shared;
        CHECK_MSG(shared == 2 && p.n_used == 0, "round %d: %d blocks kept", round, shared);
    }
    kv_pool_free(&p);
}

/* Nor do those that come at the same time, before any of it is computed. */
TEST(kv_pool_keeps_one_end_of_several_at_once) {
    KvPool p;
    PrefixKey key = {0};
    PoolPrefix found;
    int prompt[40], tables[3][2], shared = 0;
    for (int i = 0; i < 40; i++) prompt[i] = i;
    kv_pool_init(&p, 6);
    for (int i = 0; i < 3; i++) {
        CHECK(kv_pool_take(&p, tables[i], 2, prompt, 40, &key, &found));
        CHECK(found.n_blocks == (i > 0) && found.copy_rows == 0);
    }
    for (int b = 0; b < p.n; b++) shared += p.blocks[b].shared;
    CHECK_MSG(shared == 2, "%d blocks are shared", shared);
    for (int i = 0; i < 3; i++) kv_pool_release(&p, tables[i], 2);
    kv_pool_free(&p);
}

/* The least recently used prefix goes first, and of one prefix the end before the beginning. */
TEST(kv_pool_forgets_the_oldest) {
    KvPool p;
    int a[3], b[3], c[2], prompt_a[3 * KV_BLOCK], prompt_b[3 * KV_BLOCK];
    PrefixKey key = {0};
    PoolPrefix found;
    for (int i = 0; i < 3 * KV_BLOCK; i++) prompt_a[i] = i, prompt_b[i] = 1000 + i;
    kv_pool_init(&p, 6);
    CHECK(kv_pool_take(&p, a, 3, prompt_a, 3 * KV_BLOCK, &key, &found) &&
          kv_pool_take(&p, b, 3, prompt_b, 3 * KV_BLOCK, &key, &found));
    for (int i = 0; i < 6; i++) p.blocks[i].ready = true;
    kv_pool_release(&p, a, 3);
    kv_pool_release(&p, b, 3);
    CHECK(kv_pool_take(&p, c, 2, NULL, 0, &key, &found));
    CHECK(c[0] == a[2] && c[1] == a[1] && p.blocks[a[0]].shared && p.blocks[b[2]].shared);
    CHECK(!kv_pool_take(&p, b, 5, NULL, 0, &key, &found) && p.n_used == 2);
    kv_pool_release(&p, c, 2);
    CHECK(p.n_used == 0);
    kv_pool_free(&p);
}

/* ---- memory ---- */

TEST(engine_footprint_has_a_step_s_logits) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestModel m;
    c.vocab_size = 20000;
    o.prefill_chunk = 2600; /* fits no single block of those that it comes in, of 1 MiB and 2 MiB */
    REQUIRE(test_model_init(&m, &c, 1));
    EngineFootprint f = engine_footprint(&m.model, &o);
    size_t logits = (size_t)(o.max_batch + SCORED_ROWS) * 20000 * sizeof(float);
    CHECK_MSG(f.work_bytes >= logits && f.work_bytes < 2 * logits, "%zu bytes, the logits are %zu", f.work_bytes,
              logits);
    m.model.cfg.task = TASK_FILL_MASK; /* whose pass has as many masks */
    f = engine_footprint(&m.model, &o);
    CHECK_MSG(f.work_bytes >= logits && f.work_bytes < 2 * logits, "fill-mask: %zu bytes, the logits are %zu",
              f.work_bytes, logits);
    test_model_free(&m);
}

/* In whatever pieces a batch takes its memory, what the largest has taken is there, and in one piece. */
TEST(runner_warms_up_to_one_piece) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    Checkpoint checkpoint = {0};
    TestModel m;
    Runner r;
    Err err;
    o.prefill_chunk = 2600; /* fits no single block of those that it comes in, of 1 MiB and 2 MiB */
    REQUIRE(test_model_init(&m, &c, 1));
    checkpoint.model = m.model;
    REQUIRE(runner_init(&r, &checkpoint, &o, &err) == 0 && runner_warm_up(&r));
    size_t grown = r.tape.arena.grown, most = engine_footprint(&m.model, &o).work_bytes / 10 * 9;
    arena_alloc(&r.tape.arena, most);
    CHECK_MSG(r.tape.arena.grown == grown, "%zu bytes are another block", most);
    runner_free(&r);
    test_model_free(&m);
}
