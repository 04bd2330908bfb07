/* bench_sums: how far the sum of a step's gradients is from the one in double, and what comes of it.
 *
 *     bench-sums TEXT [STEPS]
 *
 * Three members of the family learn the bytes of a text, once with sums of integers (fixed_sum.h) and once with a
 * binary tree of f32, the order that is kindest to it. Of every step of the first run both are compared with the
 * double. */
#include "base/err.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "trainer/micro_batch.h"
#include "trainer/ranks/fixed_sum.h"
#include "trainer/training.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO = 8, VOCAB = 257, WINDOW = 32, LARGEST_TEXT = 1 << 30, LAST = 100 };

static const char *const members[] = {"noiseformer-v2-nano", "noble-nano", "sas-nano"};

typedef struct Run {
    Training t;
    Settings settings;
    Config config;
    Windows windows;
    MicroBatch batch;
    Tape tape;
    size_t n;
    float *grad, *g[MICRO], *tree, *fixed; /* [n] each: of the weights; of micro-batches; the two sums */
} Run;

/* Squares of differences and of what they differ from; the largest number of a gradient. */
typedef struct Errors {
    double fixed, tree, all, most;
} Errors;

static int open_run(Run *r, const char *preset, TokenSpan text, int steps, Err *err) {
    *r = (Run){.settings = {.batch = 2, .accumulate = MICRO, .noise_draws = 1, .kl_weight = 1e-2}};
    if (preset_config(&r->config, preset, err)) return -1;
    r->config.vocab_size = VOCAB;
    r->settings.recipe = (Recipe){.lr = 3e-3, .betas = {0.9, 0.95}, .weight_decay = 0.1, .clip = 1};
    r->t = (Training){.recipe = &r->settings.recipe,
                      .schedule = {.kind = SCHEDULE_COSINE, .lr = 3e-3, .warmup = steps / 20, .decay = steps},
                      .accumulate = MICRO};
    if (model_init(&r->t.model, &r->config, err) || windows_init(&r->windows, text, WINDOW, 0, err)) return -1;
    training_bind(&r->t, false);
    if (training_start(&r->t, NULL, NULL, err)) return -1;
    micro_batch_init(&r->batch, &r->settings, &r->t.model, &r->windows);
    tape_init(&r->tape, true);
    r->n = r->t.optimizer.n;
    for (int i = 0; i < MICRO; i++) r->g[i] = xcalloc(r->n, sizeof(float));
    r->tree = xcalloc(r->n, sizeof *r->tree);
    r->fixed = xcalloc(r->n, sizeof *r->fixed);
    r->grad = xcalloc(r->n, sizeof *r->grad);
    params_bind_flat(&r->t.trained, r->t.optimizer.w, r->grad);
    return 0;
}

static void close_run(Run *r) {
    for (int i = 0; i < MICRO; i++) free(r->g[i]);
    free(r->tree);
    free(r->fixed);
    free(r->grad);
    tape_free(&r->tape);
    micro_batch_free(&r->batch);
    windows_free(&r->windows);
    training_free(&r->t);
}

static float tree_sum(float *const *g, int n, size_t k) {
    return n == 1 ? g[0][k] : tree_sum(g, n / 2, k) + tree_sum(g + n / 2, n / 2, k);
}

static void compare(const Run *r, Errors *e) {
    for (size_t k = 0; k < r->n; k++) {
        double exact = 0;
        for (int i = 0; i < MICRO; i++) {
            exact += (double)r->g[i][k];
            e->most = fmax(e->most, fabs((double)r->g[i][k]));
        }
        e->fixed += pow((double)r->fixed[k] - exact, 2);
        e->tree += pow((double)r->tree[k] - exact, 2);
        e->all += exact * exact;
    }
}

static int train_step(Run *r, int64_t step, bool tree, Errors *e, double *loss, Err *err) {
    Optimizer *o = &r->t.optimizer;
    double unit = fixed_sum_unit(MICRO);
    *loss = 0;
    for (int i = 0; i < MICRO; i++) {
        memset(r->grad, 0, r->n * sizeof *r->grad);
        if (micro_batch_read(&r->batch, step, i, err)) return -1;
        *loss += micro_batch_gradient(&r->batch, &r->tape).loss / MICRO;
        if (fixed_sum_add(unit, r->n, r->grad, i == 0, o->sum.integers) != SIZE_MAX)
            return err_set(err, "a number does not fit");
        memcpy(r->g[i], r->grad, r->n * sizeof *r->grad);
    }
    for (size_t k = 0; k < r->n; k++) r->tree[k] = tree_sum(r->g, MICRO, k);
    fixed_sum_read(unit, r->n, o->sum.integers, r->fixed);
    if (tree)
        fixed_sum_add(unit, r->n, r->tree, true, o->sum.integers);
    else
        compare(r, e);
    optimizer_step(o, &r->settings.recipe, schedule_lr(&r->t.schedule, step), step + 1, MICRO);
    return 0;
}

static int learn(const char *preset, TokenSpan text, int steps, bool tree, Errors *e, double *losses, Err *err) {
    Run *r = xcalloc(1, sizeof *r);
    int rc = open_run(r, preset, text, steps, err);
    for (int step = 0; step < steps && rc == 0; step++) rc = train_step(r, step, tree, e, &losses[step], err);
    close_run(r);
    free(r);
    return rc;
}

static double mean(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] / n;
    return sum;
}

static int compare_member(const char *preset, TokenSpan text, int steps, Err *err) {
    Errors e = {0};
    double *loss[2] = {xcalloc((size_t)steps, sizeof(double)), xcalloc((size_t)steps, sizeof(double))}, apart = 0;
    int rc = learn(preset, text, steps, false, &e, loss[0], err) || learn(preset, text, steps, true, &e, loss[1], err);
    if (rc == 0) {
        int last = MIN(LAST, steps);
        for (int i = 0; i + last <= steps; i++)
            apart = fmax(apart, fabs(mean(loss[0] + i, last) - mean(loss[1] + i, last)));
        printf("%-20s %d steps: error of integers %.2e, of the tree %.2e; largest gradient %.3g; loss of the last %d "
               "%.4f and %.4f, never more than %.4f apart\n",
               preset, steps, sqrt(e.fixed / e.all), sqrt(e.tree / e.all), e.most, last,
               mean(loss[0] + steps - last, last), mean(loss[1] + steps - last, last), apart);
        fflush(stdout);
    }
    free(loss[0]);
    free(loss[1]);
    return rc ? -1 : 0;
}

static int run(const char *path, int steps, Err *err) {
    size_t n;
    char *text;
    if (kernels_init(err) || !(text = file_read(path, LARGEST_TEXT, &n, err))) return -1;
    team_resize(1); /* the models are small */
    uint16_t *ids = xcalloc(n, sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = (unsigned char)text[i];
    TokenSpan span = {.ids = (const unsigned char *)ids, .width = 2, .n = n};
    int rc = 0;
    for (size_t i = 0; i < COUNTOF(members) && rc == 0; i++) rc = compare_member(members[i], span, steps, err);
    free(ids);
    free(text);
    return rc;
}

int main(int argc, char **argv) {
    Err err;
    int steps = argc > 2 ? atoi(argv[2]) : 1000;
    if (argc < 2 || steps < 1) return fprintf(stderr, "usage: bench-sums TEXT [STEPS]\n"), 2;
    if (run(argv[1], steps, &err) == 0) return 0;
    fprintf(stderr, "bench-sums: %s\n", err.msg);
    return 1;
}
