#include "model/kernels/rates.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each try takes some ten microseconds; the shortest of ROUNDS counts, in which levels take turns. */
enum { ROWS = 48, OUTS = 64, DEPTH = 384, KEYS = 32, HEAD = 64, AGAIN = 4, ROUNDS = 4 };
enum { PAIR_UNITS = 128, PANEL = 64, MOST_VECTORS = ROWS + PANEL };

static const double CLEARLY = 1.1; /* times as long, so that the machine's moods choose nothing */

typedef struct Work {
    float x[ROWS * DEPTH], w[OUTS * DEPTH], y[ROWS * OUTS], scale[OUTS * DEPTH / INT8_GROUP];
    uint32_t panels[2][MOST_VECTORS * PAIR_UNITS * 2];
} Work;

typedef void Try(const Kernels *k, Work *w);

static void gemm_f32(const Kernels *k, Work *w) { k->gemm_f32(ROWS, OUTS, DEPTH, w->x, DEPTH, w->w, w->y, OUTS); }
static void gemm_bf16(const Kernels *k, Work *w) {
    k->gemm_bf16(ROWS, OUTS, DEPTH, (uint16_t *)w->x, DEPTH, (uint16_t *)w->w, w->y, OUTS);
}
static void gemm_f16(const Kernels *k, Work *w) {
    k->gemm_f16(ROWS, OUTS, DEPTH, w->x, DEPTH, (uint16_t *)w->w, w->y, OUTS);
}
static void gemm_i8(const Kernels *k, Work *w) {
    k->gemm_i8(ROWS, OUTS, DEPTH, (int8_t *)w->x, w->scale, (int8_t *)w->w, w->scale, w->y, OUTS);
}
static void gemm_i4(const Kernels *k, Work *w) {
    k->gemm_i4(ROWS, OUTS, DEPTH, (int8_t *)w->x, w->scale, (uint8_t *)w->w, (uint16_t *)w->scale, w->y, OUTS);
}
static void scores_f32(const Kernels *k, Work *w) {
    for (int i = 0; i < AGAIN; i++) k->scores_f32(ROWS, HEAD, w->x, w->w, w->y, KEYS);
}
static void scores_pairs(const Kernels *k, Work *w) {
    for (int i = 0; i < AGAIN; i++) k->scores_pairs(ROWS, HEAD / 2, (uint16_t *)w->x, (uint16_t *)w->w, w->y, KEYS);
}
static void mix_f32(const Kernels *k, Work *w) {
    for (int i = 0; i < AGAIN; i++) k->mix_f32(ROWS, KEYS, HEAD, w->x, KEYS, w->w, w->y);
}
static void mix_bf16(const Kernels *k, Work *w) {
    for (int i = 0; i < AGAIN; i++) k->mix_bf16(ROWS, KEYS, HEAD, w->x, KEYS, (uint16_t *)w->w, w->y);
}
static void mix_pairs(const Kernels *k, Work *w) {
    for (int i = 0; i < AGAIN; i++) k->mix_pairs(ROWS, KEYS, HEAD, (uint16_t *)w->x, KEYS, (uint16_t *)w->w, w->y);
}

static void multiply(const Kernels *k, Work *w, bool pairs) {
    int units = pairs ? PAIR_UNITS : 2 * PAIR_UNITS;
    Panels a = {.at = w->panels[0], .words = (size_t)(units * k->train->tile_rows[pairs])};
    Panels b = {.at = w->panels[1], .words = (size_t)(units * k->train->tile_columns)};
    k->train->multiply(pairs, ROWS, OUTS, units, a, b, w->y, OUTS, false);
}
static void multiply_f32(const Kernels *k, Work *w) { multiply(k, w, false); }
static void multiply_pairs(const Kernels *k, Work *w) { multiply(k, w, true); }

typedef void Function(void);

typedef struct Product {
    const char *name;
    size_t function, arithmetic; /* where they are in Kernels */
    Try *run;
} Product;

#define PRODUCT(name, order)                                                                                           \
    { #name, offsetof(Kernels, name), offsetof(Kernels, order), name }
static const Product products[] = {
    PRODUCT(gemm_f32, arithmetic),     PRODUCT(gemm_bf16, arithmetic_bf16), PRODUCT(gemm_f16, arithmetic),
    PRODUCT(gemm_i8, arithmetic),      PRODUCT(gemm_i4, arithmetic),        PRODUCT(scores_f32, arithmetic),
    PRODUCT(scores_pairs, arithmetic), PRODUCT(mix_f32, arithmetic),        PRODUCT(mix_bf16, arithmetic),
    PRODUCT(mix_pairs, arithmetic),
};

static Function *function_of(const Kernels *k, const Product *p) {
    Function *f;
    memcpy(&f, (const char *)k + p->function, sizeof f);
    return f;
}

static bool same_bits(const Kernels *a, const Kernels *b, size_t arithmetic) {
    const char *const *x = (const void *)((const char *)a + arithmetic);
    const char *const *y = (const void *)((const char *)b + arithmetic);
    return !strcmp(*x, *y);
}

static void times_open(double *seconds, int n) {
    for (int l = 0; l < n; l++) seconds[l] = 1e9;
}

/* One try of each level that is not NULL. */
static void try_each(Try *run, const Kernels *const *levels, int n, Work *w, double *seconds) {
    for (int l = 0; l < n; l++) {
        if (!levels[l]) continue;
        double begun = now_seconds();
        run(levels[l], w);
        seconds[l] = MIN(seconds[l], now_seconds() - begun);
    }
}

/* The last one, unless another is clearly faster. */
static int fastest(const double *seconds, int n) {
    int best = n - 1;
    for (int l = 0; l < n - 1; l++)
        if (seconds[l] * (best == n - 1 ? CLEARLY : 1) < seconds[best]) best = l;
    return best;
}

static void tell(RatedKernels *r, const char *what, const Kernels *level) {
    size_t n = strlen(r->others);
    snprintf(r->others + n, sizeof r->others - n, ", %s of %s", what, level->name);
}

static void choose_product(RatedKernels *r, const Product *p, const Kernels *const *levels, int n, Work *w) {
    const Kernels *rivals[KERNELS_LEVELS] = {NULL}, *own = rivals[n - 1] = levels[n - 1];
    double seconds[KERNELS_LEVELS];
    int found = 0;
    for (int l = 0; l < n - 1; l++) {
        bool rival = same_bits(levels[l], own, p->arithmetic) && function_of(levels[l], p) != function_of(own, p);
        found += rival;
        rivals[l] = rival ? levels[l] : NULL;
    }
    if (!found) return;
    times_open(seconds, n);
    for (int round = 0; round < ROUNDS; round++) try_each(p->run, rivals, n, w, seconds);
    int best = fastest(seconds, n);
    if (best == n - 1) return;
    Function *chosen = function_of(levels[best], p);
    memcpy((char *)&r->kernels + p->function, &chosen, sizeof chosen);
    tell(r, p->name, levels[best]);
}

/* A level's packed operands are its own, so it is chosen by the faster of its products. */
static void choose_training(RatedKernels *r, const Kernels *const *levels, int n, Work *w) {
    const Kernels *rivals[KERNELS_LEVELS], *own = levels[n - 1];
    double seconds[KERNELS_LEVELS];
    for (int l = 0; l < n; l++) {
        bool rival = same_bits(levels[l], own, offsetof(Kernels, arithmetic)) &&
                     same_bits(levels[l], own, offsetof(Kernels, arithmetic_bf16)) &&
                     levels[l]->train->multiply != own->train->multiply;
        rivals[l] = rival || l == n - 1 ? levels[l] : NULL;
    }
    times_open(seconds, n);
    for (int round = 0; round < ROUNDS; round++) {
        try_each(multiply_f32, rivals, n, w, seconds);
        try_each(multiply_pairs, rivals, n, w, seconds);
    }
    int best = fastest(seconds, n);
    r->train = *levels[best]->train;
    r->train.pairs_pay = own->train->pairs_pay;
    r->kernels.train = &r->train;
    if (best < n - 1) tell(r, "training", levels[best]);
}

void kernels_by_rate(RatedKernels *r, const Kernels *const *levels, int n) {
    const uint32_t small = 0x3c003c3c; /* a modest number whatever it is taken for */
    Work *w = xmalloc(sizeof *w);
    for (size_t i = 0; i < sizeof *w; i += sizeof small) memcpy((char *)w + i, &small, sizeof small);
    *r = (RatedKernels){.kernels = *levels[n - 1]};
    r->kernels.others = r->others;
    for (const Product *p = products; p < products + COUNTOF(products); p++) choose_product(r, p, levels, n, w);
    choose_training(r, levels, n, w);
    free(w);
}
