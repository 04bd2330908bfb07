/* bench_serve: tokens a second of the forward pass alone, no HTTP and no sampling.
 *
 *     bench-serve [ROUNDS] TEST... DIR...
 *
 * TEST is prefill=N (one prompt of N tokens) or decode=B (B streams, one token each a step, after a prompt of CONTEXT
 * tokens), or answer=BxPxN (B prompts of P tokens, then N tokens each, which alone are counted: what a server can reach
 * at best), with @X for a noise scale of X (1 by default); of models that classify, read=BxN (B texts of N tokens, as
 * many a pass as the daemon takes). The first test runs once more before all: memory is taken then. Every round
 * measures all tests on all checkpoints in turn, so that they share the machine's moods. One line per checkpoint and
 * test: DIR TEST median best, and the median of the processors' time for a token, in us. */
#include "base/clock.h"
#include "base/err.h"
#include "base/machine.h"
#include "base/omp_env.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = 64, STEPS = 24, MAX_TESTS = 32, MAX_DIRS = 16, MAX_ROUNDS = 99, MAX_STREAMS = 256 };
enum { MOST_BLOCKS = 64, MAX_ROWS = 8192, CACHE_BLOCKS = MAX_STREAMS * ((CONTEXT + STEPS + KV_BLOCK) / KV_BLOCK) };

typedef enum TestKind { PREFILL, DECODE, ANSWER, READ } TestKind;

typedef struct Test {
    const char *name;
    TestKind kind;
    int streams, n; /* tokens of each, of its prompt where it has one */
    int steps;      /* rows of each one after the other */
    float scale;
} Test;

typedef struct Bench {
    const char *dir;
    Checkpoint checkpoint;
    KvCache kv;
    Tape tape;
    double results[MAX_TESTS][MAX_ROUNDS], processor[MAX_TESTS][MAX_ROUNDS]; /* tokens a second; seconds a token */
} Bench;

typedef struct Stream {
    int blocks[MOST_BLOCKS];
} Stream;

static int blocks_of(const Test *t) { return (t->n + t->steps + KV_BLOCK - 1) / KV_BLOCK; }

static int parse_test(const char *text, Test *t) {
    int used = 0, streams = 1, n = 1, steps = 0;
    *t = (Test){.name = text, .scale = 1};
    if (sscanf(text, "prefill=%d%n", &n, &used) == 1)
        t->kind = PREFILL;
    else if (sscanf(text, "decode=%d%n", &streams, &used) == 1)
        t->kind = DECODE, n = CONTEXT, steps = STEPS;
    else if (sscanf(text, "answer=%dx%dx%d%n", &streams, &n, &steps, &used) == 3)
        t->kind = ANSWER;
    else if (sscanf(text, "read=%dx%d%n", &streams, &n, &used) == 2)
        t->kind = READ;
    else
        return -1;
    t->streams = streams;
    t->n = n;
    t->steps = steps;
    if (text[used] == '@') t->scale = (float)atof(text + used + 1);
    if (streams < 1 || streams > MAX_STREAMS || n < 1 || steps < 0 || (t->kind == ANSWER && steps == 0)) return -1;
    if (n > MAX_ROWS || steps > MAX_ROWS || blocks_of(t) > MOST_BLOCKS) return -1;
    if (t->kind == READ) return streams * n > MAX_ROWS ? -1 : 0;
    return streams * blocks_of(t) > CACHE_BLOCKS ? -1 : 0;
}

/* One segment of n rows per stream, after pos0 tokens; the logits of each segment's last row, or its classes. */
static void forward(Bench *b, const Test *t, const Stream *streams, int n_streams, int n, int pos0) {
    static int tokens[MAX_ROWS], want[MAX_STREAMS];
    static Segment segments[MAX_STREAMS];
    int rows = n_streams * n;
    for (int i = 0; i < rows; i++)
        tokens[i] = (int)((unsigned)(i + pos0) * 7919u % (unsigned)b->checkpoint.model.cfg.vocab_size);
    for (int s = 0; s < n_streams; s++) {
        segments[s] = (Segment){.row0 = s * n, .n = n, .pos0 = pos0, .blocks = streams[s].blocks};
        segments[s].noise = (NoiseKey){.seed = (uint64_t)s + 1, .scale = t->scale};
        want[s] = s * n + n - 1;
    }
    Batch batch = {.tokens = tokens, .n = rows, .segments = segments, .n_segments = n_streams};
    if (t->kind != READ) batch.want = want, batch.n_want = n_streams;
    model_forward(&b->checkpoint.model, &b->tape, &batch, t->kind == READ ? NULL : &b->kv);
    tape_reset(&b->tape);
}

/* Whole prompts or texts, `most` a pass. */
static void read_whole(Bench *b, const Test *t, const Stream *streams, int most) {
    for (int at = 0; at < t->streams; at += most) forward(b, t, streams + at, MIN(most, t->streams - at), t->n, 0);
}

static void decode(Bench *b, const Test *t, const Stream *streams, int steps) {
    for (int k = 0; k < steps; k++) forward(b, t, streams, t->streams, 1, t->n + k);
}

/* Tokens a second, and the seconds of processors for each. */
static double measure(Bench *b, const Test *t, double *processor) {
    enum { PASS = 512 };
    static Stream streams[MAX_STREAMS];
    int per_stream = blocks_of(t), tokens = t->streams * (t->steps ? t->steps : t->n);
    for (int s = 0; s < t->streams; s++)
        for (int k = 0; k < per_stream; k++) streams[s].blocks[k] = s * per_stream + k;
    if (t->kind == DECODE) read_whole(b, t, streams, 1);
    double start = now_seconds();
    clock_t before = clock();
    switch (t->kind) {
    case READ: /* as many rows a step as one of full length has, as the daemon plans them */
        read_whole(b, t, streams, MAX(1, b->checkpoint.model.cfg.max_positions / t->n));
        break;
    case PREFILL:
        read_whole(b, t, streams, 1);
        break;
    case DECODE:
        decode(b, t, streams, t->steps);
        break;
    case ANSWER: /* the first token of each comes of its prompt's last row */
        read_whole(b, t, streams, MAX(1, PASS / t->n));
        decode(b, t, streams, t->steps - 1);
        break;
    }
    *processor = (double)(clock() - before) / CLOCKS_PER_SEC / tokens;
    return tokens / (now_seconds() - start);
}

static int open_bench(Bench *b, const char *dir, Err *err) {
    *b = (Bench){.dir = dir};
    if (checkpoint_open(&b->checkpoint, dir, err)) return -1;
    const Model *m = &b->checkpoint.model;
    tape_init(&b->tape, false);
    if (!config_generates(&m->cfg)) return 0;
    Dtype dtype = m->embed.dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
    KvForm form = config_kv_form(&m->cfg);
    size_t bytes = (size_t)CACHE_BLOCKS * KV_BLOCK * kv_bytes_per_token(&m->cfg, dtype, form);
    char text[MEMORY_TEXT];
    fprintf(stderr, "bench-serve: the cache of %s takes %s\n", dir, memory_text(bytes, text));
    if (memory_check(bytes, "the cache", "take fewer or smaller models", err)) return -1;
    return kv_init(&b->kv, &m->cfg, CACHE_BLOCKS, dtype, form, err);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(Bench *b, const Test *t, int test, int rounds) {
    double *r = b->results[test], *p = b->processor[test];
    qsort(r, (size_t)rounds, sizeof *r, by_value);
    qsort(p, (size_t)rounds, sizeof *p, by_value);
    printf("%s %s %.1f %.1f %.1f\n", b->dir, t->name, r[rounds / 2], r[rounds - 1], 1e6 * p[rounds / 2]);
}

int main(int argc, char **argv) {
    static Bench benches[MAX_DIRS];
    static Test tests[MAX_TESTS];
    int n_benches = 0, n_tests = 0, rounds = argc > 1 ? atoi(argv[1]) : 0, at = 1;
    Err err;
    runtime_tune(argv);
    if (rounds > 0)
        at++;
    else
        rounds = 5;
    while (at < argc && n_tests < MAX_TESTS && parse_test(argv[at], &tests[n_tests]) == 0) at++, n_tests++;
    if (!n_tests || at == argc || argc - at > MAX_DIRS || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench-serve [ROUNDS] {prefill=N|decode=B|answer=BxPxN|read=BxN}[@SCALE]... DIR...\n");
        return 2;
    }
    if (kernels_init(&err)) return fprintf(stderr, "bench-serve: %s\n", err.msg), 1;
    for (; at < argc; at++)
        if (open_bench(&benches[n_benches++], argv[at], &err)) return fprintf(stderr, "bench-serve: %s\n", err.msg), 1;
    for (int r = -1; r < rounds; r++)
        for (int t = 0; t < (r < 0 ? 1 : n_tests); t++)
            for (int b = 0; b < n_benches; b++)
                benches[b].results[t][MAX(r, 0)] = measure(&benches[b], &tests[t], &benches[b].processor[t][MAX(r, 0)]);
    for (int b = 0; b < n_benches; b++) {
        for (int t = 0; t < n_tests; t++) print(&benches[b], &tests[t], t, rounds);
        tape_free(&benches[b].tape);
        kv_free(&benches[b].kv);
        checkpoint_close(&benches[b].checkpoint);
    }
    return 0;
}
