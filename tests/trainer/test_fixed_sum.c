/* The sum of gradients has no order: exactness, order and split, what it refuses, who is told. */
#include "base/memory.h"
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"
#include "trainer/ranks/fixed_sum.h"
#include "trainer/ranks/step_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40000, MICRO = 13 };

/* Of all sizes that gradients have, 1e-12 to 1e3, some zero. */
static float *draw_gradient(int micro) {
    float *g = xcalloc(N, sizeof *g);
    Draws d = draws_open(5, DRAW_TEST, (uint32_t)micro);
    for (int i = 0; i < N; i++) g[i] = (float)(draw_normal(&d) * pow(10, draw_uniform(&d) * 14 - 12));
    for (int i = 0; i < N; i += 97) g[i] = i % 2 ? 0.0f : -0.0f;
    return g;
}

static void shuffle(int *order, int n, Draws *d) {
    for (int i = n - 1; i > 0; i--) {
        int j = (int)draw_below(d, (uint64_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* Ranks each add some micro-batches, in any order; then they are added, as MPI may do in any order too. */
static void sum_split(float **g, const int *order, int n_ranks, double unit, int64_t *total) {
    int64_t *part = xcalloc(N, sizeof *part);
    memset(total, 0, N * sizeof *total);
    for (int r = n_ranks - 1; r >= 0; r--) {
        RankShare share = ranks_share(MICRO, r, n_ranks);
        for (int64_t i = 0; i < share.n; i++)
            CHECK(fixed_sum_add(unit, N, g[order[share.first + i]], i == 0, part) == SIZE_MAX);
        for (int i = 0; i < N; i++) total[i] += part[i];
    }
    free(part);
}

TEST(fixed_sum_of_a_single_one_reads_the_same) {
    float *g = draw_gradient(0), *read = xcalloc(N, sizeof *read), *single = xcalloc(N, sizeof *single);
    int64_t *sum = xcalloc(N, sizeof *sum);
    double unit = fixed_sum_unit(1);
    for (int i = 0; i < N; i += 11) g[i] *= 0x1p-40f; /* which loses bits */
    CHECK(fixed_sum_add(unit, N, g, true, sum) == SIZE_MAX);
    fixed_sum_read(unit, N, sum, read);
    memcpy(single, g, N * sizeof *g);
    CHECK(fixed_sum_single(unit, N, single) == SIZE_MAX && !memcmp(read, single, N * sizeof *read));
    CHECK(memcmp(g, single, N * sizeof *g) != 0);
    g[N - 1] = NAN, g[N / 2] = FIXED_SUM_LIMIT;
    CHECK(fixed_sum_single(unit, N, g) == N / 2);
    free(g);
    free(read);
    free(single);
    free(sum);
}

TEST(fixed_sum_has_no_order) {
    float *g[MICRO];
    int order[MICRO];
    int64_t *one = xcalloc(N, sizeof *one), *other = xcalloc(N, sizeof *other);
    Draws d = draws_open(6, DRAW_TEST, 0);
    double unit = fixed_sum_unit(MICRO);
    for (int i = 0; i < MICRO; i++) g[i] = draw_gradient(i), order[i] = i;
    sum_split(g, order, 1, unit, one);
    for (int n_ranks = 1; n_ranks <= MICRO; n_ranks++) {
        shuffle(order, MICRO, &d);
        sum_split(g, order, n_ranks, unit, other);
        CHECK_MSG(!memcmp(one, other, N * sizeof *one), "%d ranks", n_ranks);
    }
    for (int i = 0; i < MICRO; i++) free(g[i]);
    free(one);
    free(other);
}

/* The promises of the header, number by number, against sums in long double, which has 64 bits. */
TEST(fixed_sum_is_exact_to_its_unit) {
    double unit = fixed_sum_unit(MICRO);
    int64_t *sum = xcalloc(N, sizeof *sum);
    long double *exact = xcalloc(N, sizeof *exact);
    float *x = xcalloc(N, sizeof *x);
    CHECK(unit == ldexp(1, 4 - 52) && fixed_sum_unit(1) == ldexp(1, -52) && fixed_sum_unit(64) == ldexp(1, 6 - 52));
    for (int i = 0; i < MICRO; i++) {
        float *g = draw_gradient(i);
        CHECK(fixed_sum_add(unit, N, g, i == 0, sum) == SIZE_MAX);
        for (int k = 0; k < N; k++) {
            exact[k] += (long double)g[k];
            if (i == 0) CHECK(sum[k] == llrint((double)g[k] / unit));
        }
        free(g);
    }
    fixed_sum_read(unit, N, sum, x);
    for (int k = 0; k < N; k++) {
        long double off = fabsl((long double)sum[k] * (long double)unit - exact[k]);
        CHECK_MSG(off <= MICRO * (long double)unit / 2, "%d is off by %Lg units", k, off / (long double)unit);
        CHECK(x[k] == (float)((long double)sum[k] * (long double)unit));
    }
    free(sum);
    free(exact);
    free(x);
}

/* Half a unit goes to the even one, and the largest number M times stays an integer. */
TEST(fixed_sum_edges) {
    static const float halves[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 1e-30f};
    static const int64_t even[] = {0, 2, 2, 0, -2, 0};
    int64_t sum[COUNTOF(halves)];
    CHECK(fixed_sum_add(1, COUNTOF(halves), halves, true, sum) == SIZE_MAX && !memcmp(sum, even, sizeof sum));
    for (int64_t micro = 1; micro <= 1 << 20; micro = 2 * micro + (micro > 4)) {
        float most = nextafterf(FIXED_SUM_LIMIT, 0), least = -most, got[2];
        float x[] = {most, least};
        int64_t s[2];
        double unit = fixed_sum_unit(micro);
        for (int64_t i = 0; i < micro; i++) fixed_sum_add(unit, 2, x, i == 0, s);
        fixed_sum_read(unit, 2, s, got);
        CHECK(s[0] == (int64_t)((double)most / unit) * micro && s[1] == -s[0]);
        CHECK(got[0] == (float)((double)s[0] * unit) && got[1] == -got[0]);
    }
}

TEST(fixed_sum_refuses_by_place) {
    static const float bad[] = {NAN, INFINITY, -INFINITY, FIXED_SUM_LIMIT, -FIXED_SUM_LIMIT, 3e38f};
    float *x = draw_gradient(1);
    int64_t *sum = xcalloc(N, sizeof *sum);
    for (size_t b = 0; b < COUNTOF(bad); b++)
        for (size_t at = b; at < N; at += 9973) {
            float kept = x[at], last = x[N - 1];
            x[at] = bad[b];
            if (at + 1 < N) x[N - 1] = NAN;
            CHECK(fixed_sum_add(fixed_sum_unit(2), N, x, b % 2 == 0, sum) == at);
            x[at] = kept;
            x[N - 1] = last;
        }
    CHECK(fixed_sum_add(fixed_sum_unit(2), N, x, true, sum) == SIZE_MAX);
    free(x);
    free(sum);
}

/* ---- of a step ---- */

enum { LAYERS = 3, ROWS = 60, COLUMNS = 300, MATRIX = ROWS * COLUMNS, ALL = (LAYERS + 1) * MATRIX + 7 };

/* A matrix of no layer, one of each layer, and a vector of no layer. */
typedef struct Stack {
    ParamSet ps;
    Weight first, layer[LAYERS], last;
} Stack;

static void stack_init(Stack *t) {
    Init init = {.kind = INIT_CONSTANT};
    *t = (Stack){0};
    param_declare(&t->ps, &t->first, "first", 2, (int[]){ROWS, COLUMNS}, init);
    for (int l = 0; l < LAYERS; l++) {
        const char *name = test_text("layer%d", l);
        t->ps.bin = l + 1;
        param_declare(&t->ps, &t->layer[l], name, 2, (int[]){ROWS, COLUMNS}, init);
    }
    t->ps.bin = 0;
    param_declare(&t->ps, &t->last, "last", 1, (int[]){7}, init);
}

/* Layers share their places, one or two, and nothing else does; or every part lies where the caller says. */
TEST(layer_gradients_share_places) {
    Stack t;
    stack_init(&t);
    for (int places = 1; places <= 2; places++) {
        LayerGradients l;
        layer_gradients_init(&l, &t.ps, places, NULL);
        CHECK(l.n == LAYERS + 2 && layer_gradients_part(&l, -1) == 0 && layer_gradients_part(&l, 2) == 3);
        CHECK(layer_gradients_memory(&t.ps, places) == (size_t)((1 + places) * MATRIX + 7) * sizeof(float));
        CHECK(t.layer[0].grad == t.layer[2].grad && (t.layer[0].grad == t.layer[1].grad) == (places == 1));
        CHECK(t.first.grad == l.parts[0].g && t.last.grad == l.parts[4].g && l.parts[4].first == ALL - 7);
        for (int k = 0; k < ALL - (LAYERS - places) * MATRIX; k++) l.memory[k] += 1;
        for (int i = 0; i < l.n; i++) gradient_part_clear(&l.parts[i]);
        for (int k = 0; k < ALL - (LAYERS - places) * MATRIX; k++) CHECK(l.memory[k] == 0);
        layer_gradients_free(&l);
    }
    float all[ALL];
    LayerGradients own;
    layer_gradients_init(&own, &t.ps, 0, all);
    CHECK(layer_gradients_memory(&t.ps, 0) == 0 && t.first.grad == all && t.last.grad == all + ALL - 7);
    for (int i = 0; i < LAYERS; i++) CHECK(t.layer[i].grad == all + (i + 1) * MATRIX);
    layer_gradients_free(&own);
    params_free(&t.ps);
}

/* What a backward pass does: layer after layer, from the last one, in places that are clear when it comes. */
static void backward(Stack *t, const Tape *tape, float x, float last) {
    t->last.grad[6] += last;
    t->first.grad[0] += x;
    for (int l = LAYERS - 1; l >= 0; l--) {
        for (int k = 0; k < MATRIX; k++) CHECK(t->layer[l].grad[k] == 0);
        t->layer[l].grad[l] += x * (float)(l + 1);
        tape->reached(tape->reached_context, l);
    }
    t->first.grad[1] += 1;
}

/* Two steps of three micro-batches: of the first step's two do not fit. */
TEST(step_sum_adds_and_names_the_first_misfit) {
    Stack t;
    Slices slices;
    StepSum s;
    Tape tape;
    MicroLoss mean;
    Err err;
    int64_t *sum = xcalloc(ALL, sizeof *sum);
    float *g = xcalloc(ALL, sizeof *g);
    stack_init(&t);
    slices_init(&slices, &t.ps);
    step_sum_init(&s, &t.ps, &slices, (GradientSum){.integers = sum}, 3);
    tape_init(&tape, true);
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 3; i++) {
            CHECK(step_sum_begin(&s, i, &tape, &err) == 0);
            backward(&t, &tape, step == 0 && i > 0 ? -4096.0f * (float)i : 0.25f, step == 0 && i > 0 ? NAN : -1);
            step_sum_add(&s, i, (MicroLoss){.loss = i});
            CHECK(!tape.reached);
        }
        step_sum_end(&s, &mean);
        CHECK(fabs(mean.loss - 1) < 1e-12);
        if (step == 0) {
            CHECK(s.misfit.micro_batch == 1 && s.misfit.value == -4096 && s.misfit.at == 0);
            continue;
        }
        CHECK(s.misfit.micro_batch == INT64_MAX);
        fixed_sum_read(fixed_sum_unit(3), ALL, sum, g);
        CHECK(g[0] == 0.75f && g[1] == 3 && g[ALL - 1] == -3 && g[2] == 0);
        for (int l = 0; l < LAYERS; l++)
            CHECK(g[(l + 1) * MATRIX + l] == 0.75f * (float)(l + 1) && g[(l + 1) * MATRIX + l + 1] == 0);
    }
    CHECK(!strcmp(step_sum_tensor(&s, 0), "first") && !strcmp(step_sum_tensor(&s, MATRIX), "layer0") &&
          !strcmp(step_sum_tensor(&s, ALL - 1), "last"));
    tape_free(&tape);
    step_sum_free(&s);
    slices_free(&slices);
    params_free(&t.ps);
    free(sum);
    free(g);
}

/* The only micro-batch of a step is rounded where it lies, and its squares are those of what is left; then one that
 * does not fit, in a layer and behind it. */
TEST(step_sum_of_a_single_one_is_rounded_in_its_place) {
    Stack t;
    Slices slices;
    StepSum s;
    Tape tape;
    MicroLoss mean;
    Err err;
    static float g[ALL];
    stack_init(&t);
    slices_init(&slices, &t.ps);
    double *squares = xcalloc((size_t)slices.n, sizeof *squares), sum = 0;
    step_sum_init(&s, &t.ps, &slices, (GradientSum){.floats = g, .squares = squares}, 1);
    tape_init(&tape, true);
    for (int step = 0; step < 2; step++) {
        memset(g, 0, sizeof g); /* as the optimizer leaves it */
        CHECK(step_sum_begin(&s, 0, &tape, &err) == 0);
        backward(&t, &tape, step ? -1000 : 0.25f, step ? NAN : 0x1.8p-52f);
        step_sum_add(&s, 0, (MicroLoss){.loss = 1});
        step_sum_end(&s, &mean);
        if (step) break;
        CHECK(s.misfit.micro_batch == INT64_MAX);
        CHECK(g[0] == 0.25f && g[1] == 1 && g[ALL - 1] == 0x1p-51f);
        for (int l = 0; l < LAYERS; l++) CHECK(g[(l + 1) * MATRIX + l] == 0.25f * (float)(l + 1));
        for (int i = 0; i < slices.n; i++) sum += squares[i];
        CHECK(sum == 1.0625 + 0.0625 * (1 + 4 + 9) + 0x1p-102);
    }
    CHECK(s.misfit.micro_batch == 0 && s.misfit.value == -3000 && s.misfit.at == 3 * MATRIX + 2);
    tape_free(&tape);
    step_sum_free(&s);
    slices_free(&slices);
    params_free(&t.ps);
    free(squares);
}

/* ---- who has what ---- */

TEST(ranks_share_everything_once) {
    for (int64_t all = 1; all <= 40; all++)
        for (int n = 1; n <= 17; n++) {
            int64_t next = 0;
            for (int k = 0; k < n; k++) {
                RankShare s = ranks_share(all, k, n);
                CHECK(s.first == next && s.n >= all / n && s.n <= (all + n - 1) / n);
                next += s.n;
            }
            CHECK(next == all);
        }
    Err err;
    CHECK(ranks_check(5, 3, &err) == 0 && ranks_check(5, 5, &err) == 0 && ranks_check(8, 12, &err) == -1);
    CHECK_MSG(!strcmp(err.msg, "12 ranks cannot share a step of --accumulate 8: 8 can at most"), "%s", err.msg);
}

/* As rank after rank of so many: each slice has one owner, whom all know, and the buckets' pieces are what it owns. */
static void check_owners(const ParamSet *ps, int n_ranks) {
    const Ranks *before = ranks;
    int slices = 0, owned = 0;
    for (int r = 0; r < n_ranks; r++) {
        Ranks as = {.rank = r, .n = n_ranks};
        Slices s;
        ranks = &as;
        slices_init(&s, ps);
        size_t floats = 0;
        for (int b = 0; b < s.n_buckets; b++) floats += slices_bucket_owned(&s, b).n;
        CHECK(floats == s.owned);
        for (int i = 0; i < s.n; i++) {
            bool mine = s.all[i].owner == r;
            CHECK(mine == (s.all[i].owned != SIZE_MAX));
            owned += mine;
        }
        slices = s.n;
        slices_free(&s);
    }
    ranks = before;
    CHECK_MSG(slices > 16 && owned == slices, "%d ranks: %d slices, %d owners", n_ranks, slices, owned);
}

TEST(slices_have_one_owner) {
    ParamSet ps = {0};
    Weight w[12] = {0};
    for (int i = 0; i < 12; i++) {
        param_declare(&ps, &w[i], test_text("w%d", i), 2, (int[]){100 + 37 * i, 311}, (Init){.kind = INIT_CONSTANT});
    }
    for (int n = 1; n <= 12; n++) check_owners(&ps, n);
    check_owners(&ps, 100); /* more than a bucket has slices for */
    params_free(&ps);
}
