/* What moves the weights: schedule, AdamW, descent, perturbation. */
#include "base/memory.h"
#include "base/random.h"
#include "base/sha256.h"
#include "tests/support/test.h"
#include "trainer/optimizer.h"
#include "trainer/save.h"
#include "trainer/ranks/fixed_sum.h"
#include "trainer/run_folder.h"
#include "trainer/schedule.h"
#include "trainer/weight_noise.h"
#include "weights/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool near(double a, double b, double tolerance) { return fabs(a - b) <= tolerance * (1 + fabs(b)); }

TEST(trainer_schedule) {
    Schedule c = {.kind = SCHEDULE_COSINE, .lr = 1, .min_lr = 0.1, .warmup = 10, .decay = 111};
    CHECK(near(schedule_lr(&c, 0), 0.1, 1e-12) && near(schedule_lr(&c, 9), 1, 1e-12));
    CHECK(near(schedule_lr(&c, 10), 1, 1e-12) && near(schedule_lr(&c, 110), 0.1, 1e-12));
    CHECK(near(schedule_lr(&c, 60), 0.55, 1e-12) && near(schedule_lr(&c, 5000), 0.1, 1e-12));
    c.kind = SCHEDULE_LINEAR;
    CHECK(near(schedule_lr(&c, 35), 0.775, 1e-12) && near(schedule_lr(&c, 110), 0.1, 1e-12));
    c.kind = SCHEDULE_CONSTANT;
    CHECK(schedule_lr(&c, 4) == 0.5 && schedule_lr(&c, 10) == 1 && schedule_lr(&c, 110) == 1);
    c = (Schedule){.kind = SCHEDULE_COSINE, .lr = 1, .min_lr = 0.1, .decay = 1};
    CHECK(schedule_lr(&c, 0) == 1 && schedule_lr(&c, 1) == 0.1); /* the second is of a run that was made longer */
    c.warmup = c.decay = 3;
    CHECK(schedule_lr(&c, 2) == 1 && schedule_lr(&c, 3) == 0.1);
}

/* Two tensors: a matrix, decayed, with a learning rate of its own, longer than one slice; a vector. */
typedef struct Toy {
    ParamSet ps;
    Weight matrix, vector;
} Toy;

enum { TOY_ROWS = 300, TOY_COLUMNS = 100, TOY_MATRIX = TOY_ROWS * TOY_COLUMNS, TOY_N = TOY_MATRIX + 7 };

static void toy_init(Toy *t) {
    *t = (Toy){0};
    Init init = {.kind = INIT_CONSTANT};
    t->ps.bin = 1;
    param_declare(&t->ps, &t->matrix, "matrix", 2, (int[]){TOY_ROWS, TOY_COLUMNS}, init)->lr_scale = 2.5f;
    t->ps.bin = 2;
    param_declare(&t->ps, &t->vector, "vector", 1, (int[]){7}, init);
}

/* The formula, one weight at a time in double. */
static void reference_step(double *w, double *m, double *v, double g, double lr, double decay, int t) {
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.95 * *v + 0.05 * g * g;
    double m_hat = *m / (1 - pow(0.9, t)), v_hat = *v / (1 - pow(0.95, t));
    *w = *w * (1 - lr * decay) - lr * m_hat / (sqrt(v_hat) + 1e-8);
}

/* A step with g as the sum of so many micro-batches. */
static double toy_step(Optimizer *o, const Recipe *r, int t, const float *g, int64_t micro_batches) {
    CHECK(fixed_sum_add(fixed_sum_unit(micro_batches), TOY_N, g, true, o->sum.integers) == SIZE_MAX);
    return optimizer_step(o, r, 0.01, t, micro_batches);
}

TEST(trainer_adamw_matches_scalar_reference) {
    Toy toy;
    Optimizer o;
    toy_init(&toy);
    optimizer_init(&o, &toy.ps, false, 2);
    float *g = xcalloc(TOY_N, sizeof *g);
    double *w = xcalloc(3 * TOY_N, sizeof *w), *m = w + TOY_N, *v = m + TOY_N;
    Draws d = draws_open(1, DRAW_TEST, 1);
    for (int i = 0; i < TOY_N; i++) w[i] = o.w[i] = (float)draw_normal(&d);
    Recipe c = {.betas = {0.9, 0.95}, .weight_decay = 0.1, .clip = 20};
    for (int t = 1; t <= 5; t++) {
        double squares = 0, grad_scale = 0.25;
        for (int i = 0; i < TOY_N; i++) {
            g[i] = (float)(draw_normal(&d) * (t == 2 ? 0.1 : 1));
            squares += pow(g[i] * grad_scale, 2);
        }
        double clip = fmin(1, c.clip / sqrt(squares));
        CHECK((clip < 1) == (t != 2));
        for (int i = 0; i < TOY_N; i++) {
            bool matrix = i < TOY_MATRIX;
            reference_step(&w[i], &m[i], &v[i], g[i] * grad_scale * clip, 0.01 * (matrix ? 2.5 : 1), matrix ? 0.1 : 0,
                           t);
        }
        CHECK(near(toy_step(&o, &c, t, g, 4), sqrt(squares), 1e-9));
    }
    double worst = 0;
    for (int i = 0; i < TOY_N; i++) worst = fmax(worst, fabs(o.w[i] - w[i]));
    CHECK_MSG(worst < 2e-6, "worst difference %g", worst);
    free(w);
    free(g);
    optimizer_free(&o);
    params_free(&toy.ps);
}

/* What is told before is what is taken, but for the ends of buffers. */
TEST(trainer_optimizer_memory_is_as_told) {
    for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
        Toy toy;
        Optimizer o;
        size_t each = micro_batches == 1 ? 16 : 20;
        toy_init(&toy);
        optimizer_init(&o, &toy.ps, false, micro_batches);
        CHECK(optimizer_memory(&toy.ps, false, micro_batches) == each * TOY_N);
        size_t taken = arena_used(&o.memory);
        CHECK_MSG(taken >= each * TOY_N && taken < each * TOY_N + 4 * 64, "%zu bytes", taken);
        CHECK_MSG(o.memory.grown == 1, "%zu blocks, and what is left over in them", o.memory.grown);
        optimizer_free(&o);
        params_free(&toy.ps);
    }
}

/* The only micro-batch of a step is summed in floats, of which nothing is to be seen. */
TEST(trainer_single_micro_batch_has_the_bits_of_a_sum) {
    Toy toys[2];
    Optimizer o[2];
    float g[TOY_N];
    Recipe c = {.betas = {0.9, 0.95}, .weight_decay = 0.1, .clip = 1};
    Draws d = draws_open(1, DRAW_TEST, 4);
    for (int i = 0; i < 2; i++) {
        toy_init(&toys[i]);
        optimizer_init(&o[i], &toys[i].ps, false, 1 + i);
    }
    for (int t = 1; t <= 5; t++) {
        for (int i = 0; i < TOY_N; i++) g[i] = (float)draw_normal(&d) * (i % 3 ? 1 : 0x1p-48f);
        memcpy(o[0].sum.floats, g, sizeof g);
        CHECK(gradient_sum_round(&o[0].slices, 0, o[0].slices.n, o[0].sum) == SIZE_MAX);
        CHECK(fixed_sum_add(fixed_sum_unit(1), TOY_N, g, true, o[1].sum.integers) == SIZE_MAX);
        CHECK(optimizer_step(&o[0], &c, 0.01, t, 1) == optimizer_step(&o[1], &c, 0.01, t, 1));
        CHECK(!memcmp(o[0].w, o[1].w, sizeof g) && !memcmp(o[0].m, o[1].m, sizeof g));
    }
    for (int i = 0; i < 2; i++) {
        optimizer_free(&o[i]);
        params_free(&toys[i].ps);
    }
}

/* torch.optim.SGD's equations, but for the decay, which is AdamW's. */
TEST(trainer_descent_matches_scalar_reference) {
    Toy toy;
    Optimizer o;
    toy_init(&toy);
    optimizer_init(&o, &toy.ps, false, 2);
    float *g = xcalloc(TOY_N, sizeof *g);
    double *w = xcalloc(2 * TOY_N, sizeof *w), *m = w + TOY_N, worst = 0;
    Draws d = draws_open(1, DRAW_TEST, 2);
    for (int i = 0; i < TOY_N; i++) w[i] = o.w[i] = (float)draw_normal(&d);
    Recipe c = {.optimizer = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.1, .clip = 20};
    for (int t = 1; t <= 5; t++) {
        double squares = 0;
        for (int i = 0; i < TOY_N; i++) {
            g[i] = (float)draw_normal(&d);
            squares += pow(g[i] * 0.5, 2);
        }
        for (int i = 0; i < TOY_N; i++) {
            double lr = 0.01 * (i < TOY_MATRIX ? 2.5 : 1), decay = i < TOY_MATRIX ? 0.1 : 0;
            m[i] = 0.9 * m[i] + g[i] * 0.5 * fmin(1, c.clip / sqrt(squares));
            w[i] = w[i] * (1 - lr * decay) - lr * m[i];
        }
        CHECK(near(toy_step(&o, &c, t, g, 2), sqrt(squares), 1e-9));
    }
    for (int i = 0; i < TOY_N; i++) worst = fmax(worst, fabs(o.w[i] - w[i]));
    CHECK_MSG(worst < 2e-6, "worst difference %g", worst);
    free(w);
    free(g);
    optimizer_free(&o);
    params_free(&toy.ps);
}

TEST(trainer_perturbation_modes) {
    Toy toy;
    toy_init(&toy);
    float *w = xcalloc(TOY_N, sizeof *w);
    CHECK(perturb_bins(&toy.ps) == 3);
    Perturb p = {.mode = PERTURB_ALL_BEFORE, .sigma = 0.3, .seed = 9};
    perturb_apply(&p, &toy.ps, w, 4);
    double squares = 0;
    for (int i = 0; i < TOY_N; i++) squares += (double)w[i] * (double)w[i];
    CHECK_MSG(near(sqrt(squares / TOY_N), 0.3 / sqrt(3), 0.01), "%g", sqrt(squares / TOY_N));
    perturb_restore(&p, &toy.ps, w);
    CHECK(w[0] == 0 && w[TOY_N - 1] == 0);
    perturb_free(&p);

    p = (Perturb){.mode = PERTURB_LAYER_AFTER, .sigma = 0.3, .seed = 9};
    int hits[3] = {0};
    for (int64_t step = 0; step < 60; step++) {
        memset(w, 0, TOY_N * sizeof *w);
        perturb_apply(&p, &toy.ps, w, step);
        perturb_restore(&p, &toy.ps, w);
        CHECK(w[0] == 0 || w[TOY_N - 1] == 0);
        hits[w[0] != 0 ? 1 : w[TOY_N - 1] != 0 ? 2 : 0]++;
    }
    CHECK(hits[0] > 5 && hits[1] > 5 && hits[2] > 5);
    free(w);
    params_free(&toy.ps);
}

/* Parameter i takes draws 4 + 2 i and 5 + 2 i, wherever its tensor begins, and what is moved goes back. */
TEST(trainer_perturbation_is_draw_normal_one_by_one) {
    enum { ODD = 3, MIDDLE = 4095, LAST = 9001, N = ODD + MIDDLE + LAST };
    ParamSet ps = {0};
    Weight tensors[3];
    const int sizes[3] = {ODD, MIDDLE, LAST};
    for (int i = 0; i < 3; i++) {
        ps.bin = i;
        param_declare(&ps, &tensors[i], (const char *[]){"odd", "middle", "last"}[i], 1, &sizes[i],
                      (Init){.kind = INIT_CONSTANT});
    }
    float *w = xcalloc(2 * N, sizeof *w), *before = w + N;
    for (PerturbMode mode = PERTURB_ALL_BEFORE; mode <= PERTURB_LAYER_AFTER; mode++) {
        Perturb p = {.mode = mode, .sigma = 0.3, .seed = 9};
        for (int64_t step = 0; step < 8; step++) {
            bool all = mode == PERTURB_ALL_BEFORE || mode == PERTURB_ALL_AFTER;
            double sigma = all ? 0.3 / sqrt(3) : 0.3;
            Draws bin = draws_open(9, DRAW_PERTURB, (uint32_t)step), d = bin;
            int only = (int)draw_below(&bin, 3), wrong = 0;
            d.next = 4;
            memcpy(before, w, N * sizeof *w);
            perturb_apply(&p, &ps, w, step);
            for (int i = 0; i < N; i++) {
                float noise = (float)(sigma * draw_normal(&d));
                bool moves = all || only == (i < ODD ? 0 : i < ODD + MIDDLE ? 1 : 2);
                wrong += w[i] != (moves ? before[i] + noise : before[i]);
            }
            CHECK_MSG(!wrong, "mode %d, step %lld: %d parameters", (int)mode, (long long)step, wrong);
            perturb_restore(&p, &ps, w);
            bool stays = mode == PERTURB_ALL_AFTER || mode == PERTURB_LAYER_AFTER;
            CHECK(stays != !memcmp(w, before, N * sizeof *w));
        }
        perturb_free(&p);
    }
    free(w);
    params_free(&ps);
}

/* Another network than the one that was saved, and a step that is none. */
TEST(trainer_optimizer_file_says_what_does_not_fit) {
    static const struct {
        const char *name;
        int n_extra, rows;
        const char *why;
    } others[] = {{"matrix", 0, 3, NULL},
                  {"matrix", 1, 3, "3 tensors, the model wants 6"},
                  {"other", 0, 3, "master.other is missing"},
                  {"matrix", 0, 4, "master.matrix is F32 of 24 bytes, the model wants F32 of 32"}};
    static const char *const steps[][2] = {{"1234", NULL}, {"12x4", "12x4"}, {"-123", "-123"}, {"\"   ", ""}};
    const char *dir = test_dir();
    Init init = {.kind = INIT_CONSTANT};
    Err err = {""};
    int64_t step;
    for (size_t i = 0; i < COUNTOF(others); i++) {
        ParamSet ps = {0};
        Weight matrix, extra;
        Optimizer o;
        param_declare(&ps, &matrix, others[i].name, 2, (int[]){others[i].rows, 2}, init);
        if (others[i].n_extra) param_declare(&ps, &extra, "extra", 1, (int[]){2}, init);
        optimizer_init(&o, &ps, false, 1);
        if (i == 0) CHECK_MSG(save_now(&(Save){0}, &o, &ps, dir, 1234, &err) == 0, "%s", err.msg);
        CHECK((optimizer_load(&o, &ps, dir, &step, &err) == 0) == !others[i].why);
        CHECK_MSG(!others[i].why || strstr(err.msg, others[i].why), "%s", err.msg);
        optimizer_free(&o);
        params_free(&ps);
    }
    const char *path = test_text("%s/" RUN_OPTIMIZER, dir);
    ParamSet ps = {0};
    Weight matrix;
    Optimizer o;
    param_declare(&ps, &matrix, "matrix", 2, (int[]){3, 2}, init);
    optimizer_init(&o, &ps, false, 1);
    for (size_t i = 0; i < COUNTOF(steps); i++) {
        size_t n;
        char *file = test_read_file(path, &n), *at = memmem(file, n, steps[i ? i - 1 : 0][0], 4);
        REQUIRE(at);
        memcpy(at, steps[i][0], 4);
        if (*at == '"') at[4] = ' '; /* which ended the string before */
        test_write_file(path, file, n);
        CHECK((optimizer_load(&o, &ps, dir, &step, &err) == 0) == !steps[i][1]);
        CHECK_MSG(steps[i][1] ? strstr(err.msg, test_text("the step in its metadata is \"%s\"",
                                                          steps[i][1] ? steps[i][1] : "")) != NULL
                              : step == 1234,
                  "%s", err.msg);
        free(file);
    }
    optimizer_free(&o);
    params_free(&ps);
}

/* Two slices and one that is short. */
enum { LONG = SLICE + SLICE / 2, SHORT = 5 };

typedef struct Filed {
    ParamSet ps;
    Weight first, second;
    Optimizer o;
    const char *dir;
    char path[300];
} Filed;

static void filed_open(Filed *f) {
    *f = (Filed){.dir = test_dir()};
    param_declare(&f->ps, &f->first, "long", 1, (int[]){LONG}, (Init){.kind = INIT_CONSTANT});
    param_declare(&f->ps, &f->second, "a.short", 1, (int[]){SHORT}, (Init){.kind = INIT_CONSTANT});
    optimizer_init(&f->o, &f->ps, false, 1);
    for (int i = 0; i < LONG + SHORT; i++) {
        f->o.w[i] = (float)i;
        f->o.m[i] = (float)-i;
        f->o.v[i] = (float)i / 2;
    }
    snprintf(f->path, sizeof f->path, "%s/" RUN_OPTIMIZER, f->dir);
}

static void filed_close(Filed *f) {
    optimizer_free(&f->o);
    params_free(&f->ps);
}

static void filed_check_loads(Filed *f, int64_t wanted) {
    Err err = {""};
    int64_t step = -1;
    for (int i = 0; i < LONG + SHORT; i++) f->o.w[i] = f->o.m[i] = f->o.v[i] = 7;
    CHECK_MSG(optimizer_load(&f->o, &f->ps, f->dir, &step, &err) == 0, "%s", err.msg);
    CHECK(step == wanted);
    for (int i = 0; i < LONG + SHORT; i++)
        REQUIRE(f->o.w[i] == (float)i && f->o.m[i] == (float)-i && f->o.v[i] == (float)i / 2);
}

/* Digests of digests, as any program can compute them; whatever is changed in it is noticed, and named. */
TEST(trainer_optimizer_file_has_a_tree_of_digests) {
    Filed f;
    SafeFile file;
    Err err = {""};
    char hex[SHA256_HEX];
    unsigned char digest[SHA256_BYTES];
    Sha256 hash;
    int64_t step;
    filed_open(&f);
    REQUIRE(save_now(&(Save){0}, &f.o, &f.ps, f.dir, 3, &err) == 0);
    REQUIRE(safe_open(&file, f.path, &err) == 0); /* a safetensors file as others are */
    const SafeTensor *tree = safe_find(&file, "slices.sha256"), *v = safe_find(&file, "v.long");
    REQUIRE(tree && v && tree->bytes == 3 * 3 * SHA256_BYTES && file.n == 7 && !file.metadata_sha256);
    sha256_init(&hash);
    sha256_add(&hash, tree->data, tree->bytes);
    sha256_hex(&hash, hex);
    CHECK(!strcmp(hex, file.metadata_parts));
    sha256_init(&hash);
    sha256_add(&hash, (const float *)v->data + SLICE, SLICE / 2 * sizeof(float));
    sha256_peek(&hash, digest);
    CHECK(!memcmp((const unsigned char *)tree->data + (1 * 3 + 2) * SHA256_BYTES, digest, sizeof digest));
    size_t at[] = {(size_t)((const char *)tree->data - (const char *)file.map),
                   (size_t)((const char *)v->data - (const char *)file.map) + SLICE * sizeof(float) + 9};
    static const char *const why[] = {"slices.sha256 has sha256 ", "v.long from element 16384 on has sha256 "};
    safe_close(&file);
    filed_check_loads(&f, 3);
    for (size_t i = 0; i < COUNTOF(at); i++) {
        size_t n;
        char *bytes = test_read_file(f.path, &n);
        bytes[at[i]] ^= 1;
        test_write_file(f.path, bytes, n);
        CHECK(optimizer_load(&f.o, &f.ps, f.dir, &step, &err) == -1);
        CHECK_MSG(strstr(err.msg, why[i]), "%s", err.msg);
        bytes[at[i]] ^= 1;
        test_write_file(f.path, bytes, n);
        free(bytes);
    }
    filed_check_loads(&f, 3);
    filed_close(&f);
}

/* Which digests do not tell of: it was saved so. */
TEST(trainer_optimizer_file_with_a_nan_is_refused) {
    Filed f;
    Err err = {""};
    int64_t step;
    filed_open(&f);
    f.o.v[LONG + 1] = NAN;
    REQUIRE(save_now(&(Save){0}, &f.o, &f.ps, f.dir, 3, &err) == 0);
    CHECK(optimizer_load(&f.o, &f.ps, f.dir, &step, &err) == -1);
    CHECK_MSG(strstr(err.msg, "v.a.short holds NaN or infinity, first at element 1"), "%s", err.msg);
    filed_close(&f);
}

/* Those that were saved before there were such digests. */
TEST(trainer_optimizer_file_of_one_digest_is_read) {
    Filed f;
    Err err = {""};
    int64_t step;
    filed_open(&f);
    const float *copies[] = {f.o.w, f.o.m, f.o.v};
    static const char *const names[][2] = {
        {"master.long", "master.a.short"}, {"m.long", "m.a.short"}, {"v.long", "v.a.short"}};
    SafeOut out[6];
    for (int i = 0; i < 6; i++)
        out[i] = (SafeOut){.name = names[i / 2][i % 2],
                           .dtype = DTYPE_F32,
                           .source = DTYPE_F32,
                           .n_dims = 1,
                           .dims = {i % 2 ? SHORT : LONG},
                           .data = copies[i / 2] + (i % 2 ? LONG : 0)};
    REQUIRE(safe_save(f.path, out, 6, 11, &err) == 0);
    filed_check_loads(&f, 11);
    size_t n;
    char *bytes = test_read_file(f.path, &n);
    bytes[n - 3] ^= 1;
    test_write_file(f.path, bytes, n);
    free(bytes);
    CHECK(optimizer_load(&f.o, &f.ps, f.dir, &step, &err) == -1);
    CHECK_MSG(strstr(err.msg, "the data has sha256 "), "%s", err.msg);
    filed_close(&f);
}
