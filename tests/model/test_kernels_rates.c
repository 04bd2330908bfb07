/* The choice of a level, and of products by what they cost, of levels that are made up: some are given many times the
 * work. */
#include "base/err.h"
#include "model/kernels/isa.h"
#include "model/kernels/rates.h"
#include "tests/support/test.h"

#include <string.h>

static void quick_bf16(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy) {
    (void)n, (void)n_out, (void)k, (void)x, (void)ldx, (void)w, (void)y, (void)ldy;
}

static void quick_scores(int n, int pairs, const uint16_t *q, const uint16_t *k, float *s, int lds) {
    (void)n, (void)pairs, (void)q, (void)k, (void)s, (void)lds;
}

static void quick_multiply(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    (void)pairs, (void)m, (void)n, (void)units, (void)a, (void)b, (void)c, (void)ldc, (void)add;
}

static void quick_pairs(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    if (!pairs) kernels_ref.train->multiply(pairs, m, n, units, a, b, c, ldc, add);
}

static void quick_f32(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    if (pairs) kernels_ref.train->multiply(pairs, m, n, units, a, b, c, ldc, add);
}

TEST(kernels_rates_take_the_faster_of_equal_bits) {
    TrainKernels train = *kernels_ref.train;
    Kernels quick = kernels_ref, exact, slow = kernels_ref;
    train.multiply = quick_multiply;
    quick.name = "quick", quick.gemm_bf16 = quick_bf16, quick.scores_pairs = quick_scores, quick.train = &train;
    slow.name = "slow";
    exact = quick;
    exact.name = exact.arithmetic = exact.arithmetic_bf16 = "exact", exact.train = slow.train;
    const Kernels *upward[] = {&slow, &quick}, *strange[] = {&exact, &slow}, *downward[] = {&quick, &slow};

    RatedKernels r;
    const Kernels *k = &r.kernels;
    kernels_by_rate(&r, upward, 2);
    CHECK_MSG(k->gemm_bf16 == quick_bf16 && k->train->multiply == quick_multiply && !*k->others, "slow%s", k->others);
    kernels_by_rate(&r, strange, 2);
    CHECK_MSG(k->gemm_bf16 == slow.gemm_bf16 && k->scores_pairs == slow.scores_pairs, "other bits were taken%s",
              k->others);
    kernels_by_rate(&r, downward, 2);
    CHECK(k->gemm_bf16 == quick_bf16 && k->scores_pairs == quick_scores && k->train->multiply == quick_multiply);
    CHECK(k->gemm_f32 == slow.gemm_f32);
    CHECK_MSG(!strcmp(k->name, "slow") &&
                  !strcmp(k->others, ", gemm_bf16 of quick, scores_pairs of quick, training of quick"),
              "%s%s", k->name, k->others);
}

/* amx has an arithmetic of its own for bf16 products alone. */
TEST(kernels_rates_know_the_bits_of_each_product) {
    Kernels quick = kernels_ref, slow = kernels_ref;
    quick.name = "quick", quick.gemm_bf16 = quick_bf16, quick.scores_pairs = quick_scores;
    slow.arithmetic_bf16 = "own";
    const Kernels *both[] = {&quick, &slow};
    RatedKernels r;
    const Kernels *k = &r.kernels;
    kernels_by_rate(&r, both, 2);
    CHECK_MSG(k->gemm_bf16 == slow.gemm_bf16 && !strcmp(k->others, ", scores_pairs of quick"), "own%s", k->others);
}

/* Whether bf16 pays decides about a training's bytes. Once it was measured: on a busy machine one run of some hundred
 * was one in f32. */
TEST(kernels_rates_do_not_decide_whether_bf16_pays) {
    static const bool pays[] = {false, true};
    TrainKernels train = *kernels_ref.train, other = train;
    Kernels own = kernels_ref, quick = kernels_ref;
    const Kernels *both[] = {&quick, &own};
    RatedKernels r;
    own.train = &train, quick.train = &other, quick.name = "quick";
    other.multiply = quick_multiply;
    for (size_t i = 0; i < COUNTOF(pays); i++) {
        train.pairs_pay = pays[i], other.pairs_pay = !pays[i];
        train.multiply = pays[i] ? quick_f32 : quick_pairs;
        kernels_by_rate(&r, both + 1, 1);
        CHECK_MSG(r.kernels.train->pairs_pay == pays[i], "alone: %d", pays[i]);
        train.multiply = kernels_ref.train->multiply;
        kernels_by_rate(&r, both, 2);
        CHECK(r.kernels.train->multiply == quick_multiply);
        CHECK_MSG(r.kernels.train->pairs_pay == pays[i], "with another's products: %d", pays[i]);
    }
}

TEST(kernels_rates_keep_the_arithmetic) {
    const Kernels *levels[KERNELS_LEVELS];
    int n = kernels_available(levels);
    test_env("NOISED_ISA", NULL);
    REQUIRE(kernels_init(NULL) == 0);
    CHECK(!strcmp(kernels->arithmetic, levels[n - 1]->arithmetic));
    CHECK(!strcmp(kernels->arithmetic_bf16, levels[n - 1]->arithmetic_bf16));
    test_env_back();
    kernels_init(NULL);
}

TEST(kernels_isa_is_capped_by_the_environment) {
    Err err = {""};
    test_env("NOISED_ISA", "ref");
    CHECK(kernels_init(&err) == 0 && strcmp(kernels->name, "ref") == 0);
    test_env("NOISED_ISA", "avx1024");
    CHECK(kernels_init(&err) == -1 && strstr(err.msg, "avx1024"));
    test_env("NOISED_ISA", NULL);
    const Kernels *levels[KERNELS_LEVELS];
    int n = kernels_available(levels);
    CHECK(kernels_init(&err) == 0 && !strcmp(kernels->name, levels[n - 1]->name));
    test_env("NOISED_ISA", levels[n - 1]->name);
    CHECK(kernels_init(&err) == 0 && kernels == levels[n - 1]);
    test_env_back();
    CHECK(kernels_init(&err) == 0);
}
