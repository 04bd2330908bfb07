/* bench_members: what a member of the family costs beside the same network without it, on one thread, by processor
 * time: reading a prompt and decoding, whose matrices are BF16, and training steps in f32, AdamW included.
 *
 *     OMP_NUM_THREADS=1 bench-members ROUNDS [MEMBER]...
 *
 * Serving has the 124M shape, 512 tokens or 8 streams behind 64; training six layers of 384, a vocabulary of 4,096 and
 * 4 windows of 256. Every round measures a member and its host one after the other; a figure is the median of the
 * rounds' ratios, and the least and the greatest of them. */
#include "base/err.h"
#include "base/memory.h"
#include "base/omp_env.h"
#include "model/config_check.h"
#include "model/kernels/kernels.h"
#include "model/transformer.h"
#include "weights/presets.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 99, PROMPT = 512, STREAMS = 8, STREAM_BLOCKS = PROMPT / KV_BLOCK, MAX_ROWS = PROMPT, STEPS = 4 };
enum { WINDOWS = 4, WINDOW = 256 };

typedef struct Member {
    const char *name, *preset, *host; /* presets of 124M, but for their size */
    void (*change)(Config *c);        /* what makes the member of its preset; NULL: nothing */
    void (*of_host)(Config *c);
} Member;

static void mixture(Config *c) {
    c->noise.density = DENSITY_MIXTURE;
    c->noise.components = 4;
}

static void no_sas(Config *c) { memset(&c->sas, 0, sizeof c->sas); }

static const Member members[] = {
    {.name = "noise-v1", .preset = "noiseformer-v1", .host = "symmetric"},
    {.name = "noise-v2", .preset = "noiseformer-v2", .host = "symmetric"},
    {.name = "sequence", .preset = "noiseformer-seq", .host = "symmetric"},
    {.name = "mixture", .preset = "noiseformer-v2", .host = "symmetric", .change = mixture},
    {.name = "noble", .preset = "noble", .host = "noble-host"},
    {.name = "sas", .preset = "sas", .host = "sas", .of_host = no_sas},
};

typedef struct Net {
    Model model;
    Tape tape;
    KvCache kv;     /* serving */
    uint16_t *bf16; /* serving: the matrices */
    float *w;       /* flat */
    float *g;       /* training: gradients and both moments, flat */
} Net;

static void die(const Err *err) {
    fprintf(stderr, "bench-members: %s\n", err->msg);
    exit(1);
}

static void make_small(Config *c) {
    c->hidden_size = 384;
    c->n_layers = 6;
    c->n_heads = c->n_kv_heads = 6;
    c->sas.heads /= 2;
    c->vocab_size = 4096;
    c->max_positions = WINDOW;
    c->mlp.width /= 2;
}

static void bind_bf16(Net *n, size_t count) {
    ParamSet *ps = &n->model.params;
    n->bf16 = xmalloc(count * sizeof *n->bf16);
    kernels->to_bf16((int)count, n->w, n->bf16);
    for (int i = 0; i < ps->n; i++) {
        Weight *w = ps->params[i].weight;
        if (!ps->params[i].matrix) continue;
        w->data = n->bf16 + (weight_f32(w) - n->w);
        w->dtype = DTYPE_BF16;
    }
}

static void net_open(Net *n, const char *member, void (*change)(Config *c), bool training) {
    Config c;
    Err err;
    char preset[64];
    *n = (Net){0};
    snprintf(preset, sizeof preset, "%s-124m", member);
    if (preset_config(&c, preset, &err)) die(&err);
    if (change) change(&c);
    if (training) make_small(&c);
    if (config_check(&c, &err) || model_init(&n->model, &c, &err)) die(&err);
    ParamSet *ps = &n->model.params;
    size_t count = params_count(ps);
    n->w = xmalloc(count * sizeof *n->w);
    n->g = training ? xcalloc(3 * count, sizeof *n->g) : NULL;
    params_bind_flat(ps, n->w, n->g);
    for (int i = 0; i < ps->n; i++) param_init(&ps->params[i], 1, weight_f32(ps->params[i].weight));
    tape_init(&n->tape, training);
    if (training) return;
    bind_bf16(n, count);
    if (kv_init(&n->kv, &c, STREAMS * STREAM_BLOCKS, DTYPE_BF16, KV_EXPANDED, &err)) die(&err);
}

static void net_close(Net *n) {
    tape_free(&n->tape);
    kv_free(&n->kv);
    model_free(&n->model);
    free(n->w);
    free(n->g);
    free(n->bf16);
}

/* ---- what is measured ---- */

/* n rows for each of `streams`, behind `before` tokens. */
static void serve(Net *n, int streams, int before, int rows, float scale) {
    static int tokens[MAX_ROWS], want[STREAMS], blocks[STREAMS][STREAM_BLOCKS];
    Segment segments[STREAMS];
    for (int i = 0; i < streams * rows; i++)
        tokens[i] = (int)((unsigned)(i + before) * 7919u % (unsigned)n->model.cfg.vocab_size);
    for (int s = 0; s < streams; s++) {
        for (int b = 0; b < STREAM_BLOCKS; b++) blocks[s][b] = s * STREAM_BLOCKS + b;
        segments[s] = (Segment){.row0 = s * rows, .n = rows, .pos0 = before, .blocks = blocks[s]};
        segments[s].noise = (NoiseKey){.seed = (uint64_t)s + 1, .scale = scale};
        want[s] = (s + 1) * rows - 1;
    }
    Batch batch = {.tokens = tokens,
                   .n = streams * rows,
                   .segments = segments,
                   .n_segments = streams,
                   .want = want,
                   .n_want = streams};
    model_forward(&n->model, &n->tape, &batch, &n->kv);
    tape_reset(&n->tape);
}

static void prefill(Net *n) { serve(n, 1, 0, PROMPT, 1); }
static void prefill_quiet(Net *n) { serve(n, 1, 0, PROMPT, 0); }

static void decode(Net *n) {
    for (int i = 0; i < STEPS; i++) serve(n, STREAMS, PROMPT / STREAMS + i, 1, 1);
}

static void train(Net *n) {
    static int tokens[WINDOWS * WINDOW + 1];
    Segment segments[WINDOWS];
    size_t count = params_count(&n->model.params);
    for (int i = 0; i <= WINDOWS * WINDOW; i++)
        tokens[i] = (int)((unsigned)i * 7919u % (unsigned)n->model.cfg.vocab_size);
    for (int s = 0; s < WINDOWS; s++)
        segments[s] = (Segment){.row0 = s * WINDOW, .n = WINDOW, .noise = {.seed = 1, .stream = 1, .scale = 1}};
    Batch batch = {.tokens = tokens, .n = WINDOWS * WINDOW, .segments = segments, .n_segments = WINDOWS};
    memset(n->g, 0, count * sizeof *n->g);
    Mat *logits = model_forward(&n->model, &n->tape, &batch, NULL);
    tape_backward(&n->tape, model_loss(&n->tape, logits, tokens + 1, NULL, 5e-6f, NULL));
    AdamwRow row = {
        .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .grad_scale = 1, .correction2 = 1, .step = 1e-6f, .keep = 1};
    kernels->train->adamw(&row, (int)count, n->w, n->g, n->g + count, n->g + 2 * count);
    tape_reset(&n->tape);
}

typedef struct Test {
    const char *name;
    void (*run)(Net *n);
    bool training;
    int tokens;
} Test;

static const Test tests[] = {
    {"prefill", prefill, false, PROMPT},
    {"noise off", prefill_quiet, false, PROMPT},
    {"decode", decode, false, STREAMS *STEPS},
    {"training", train, true, WINDOWS *WINDOW},
};

static double processor_seconds(const Test *t, Net *n) {
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    t->run(n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

/* A first round warms up. */
static void compare(const Test *t, Net *host, Net *member, int rounds, const char *name) {
    double alone[ROUNDS_MAX], with[ROUNDS_MAX], ratio[ROUNDS_MAX];
    for (int r = -1; r < rounds; r++) {
        int at = MAX(r, 0);
        alone[at] = processor_seconds(t, host);
        with[at] = processor_seconds(t, member);
        ratio[at] = with[at] / alone[at];
    }
    double middle = median(ratio, rounds);
    printf("%-10s %-10s %8.1f %8.1f   %.3f (%.3f to %.3f)\n", name, t->name, t->tokens / median(alone, rounds),
           t->tokens / median(with, rounds), middle, ratio[0], ratio[rounds - 1]);
    fflush(stdout);
}

static void run(const Member *m, bool training, int rounds) {
    Net host, member;
    net_open(&host, m->host, m->of_host, training);
    net_open(&member, m->preset, m->change, training);
    for (size_t t = 0; t < COUNTOF(tests); t++)
        if (tests[t].training == training) compare(&tests[t], &host, &member, rounds, m->name);
    net_close(&host);
    net_close(&member);
}

static bool is_named(const Member *m, int n, char **names) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], m->name)) return true;
    return n == 0;
}

int main(int argc, char **argv) {
    Err err;
    runtime_tune(argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench-members ROUNDS [MEMBER]...\n");
        return 2;
    }
    if (kernels_init(&err)) die(&err);
    printf("%-10s %-10s %8s %8s   times the host's time (level %s, tokens/s of processor time)\n", "member", "", "host",
           "member", kernels->name);
    for (size_t i = 0; i < COUNTOF(members); i++)
        for (int training = 0; training < 2 && is_named(&members[i], argc - 2, argv + 2); training++)
            run(&members[i], training, rounds);
    return 0;
}
