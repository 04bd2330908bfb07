#include "model/kernels/blas.h"

#include "base/random.h"
#include "model/tensor.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One operand: `n` vectors of BLAS_DEPTH elements, laid out either way. */
typedef struct Side {
    int n;
    float *x; /* [BLAS_OUTS BLAS_DEPTH], as many as the larger side needs */
    float vector[BLAS_DEPTH];
} Side;

/* Magnitudes so far apart that hardly two orders of addition agree. */
static float element(Draws *d) {
    uint32_t u = draw_u32(d);
    return (float)(int32_t)u * (float)(1 << u % 9);
}

static void put(const Side *s, bool across, int place, const float *vector) {
    for (int e = 0; e < BLAS_DEPTH; e++) s->x[across ? e * s->n + place : place * BLAS_DEPTH + e] = vector[e];
}

/* What may stand beside a vector. */
typedef enum Others { OTHERS_NONE, OTHERS_EQUAL, OTHERS_ANY, OTHERS_NAN, OTHERS } Others;

/* The vector at the places that are `place` modulo `every`, others elsewhere. */
static void side_fill(const Side *s, bool across, Draws *d, int place, int every, Others others) {
    for (int p = 0; p < s->n; p++) {
        float beside[BLAS_DEPTH] = {0};
        for (int e = 0; e < BLAS_DEPTH && others == OTHERS_ANY; e++) beside[e] = element(d);
        if (others == OTHERS_NAN) beside[p % BLAS_DEPTH] = p % 2 ? NAN : INFINITY;
        put(s, across, p, p % every == place || others == OTHERS_EQUAL ? s->vector : beside);
    }
}

typedef struct Trial {
    BlasProduct *product;
    bool across;
    Side a, b;
    float c[BLAS_ROWS * BLAS_OUTS];
    float want;
} Trial;

/* Whether every element that the two vectors make has the bits of the first one. */
static bool all_alike(Trial *t, int row, int rows, int out, int outs) {
    t->product(t->across, t->a.x, t->b.x, t->c);
    for (int i = row; i < BLAS_ROWS; i += rows)
        for (int o = out; o < BLAS_OUTS; o += outs)
            if (memcmp(&t->c[i * BLAS_OUTS + o], &t->want, sizeof t->want)) return false;
    return true;
}

/* One vector at each place of its side in turn, the other at all of its own. */
static bool alone(Trial *t, Draws *d, Side *s, const Side *other) {
    bool alike = true, rows = s == &t->a;
    side_fill(other, t->across, d, 0, 1, OTHERS_EQUAL);
    for (int place = 0; place < s->n; place++) {
        side_fill(s, t->across, d, place, s->n, OTHERS_NONE);
        alike &= all_alike(t, rows ? place : 0, rows ? s->n : 1, rows ? 0 : place, rows ? 1 : s->n);
    }
    return alike;
}

static bool among_others(Trial *t, Draws *d) {
    enum { EVERY = 3 };
    bool alike = true;
    for (Others others = OTHERS_NONE; others < OTHERS; others++)
        for (int row = 0; row < EVERY; row++)
            for (int out = 0; out < EVERY; out++) {
                side_fill(&t->a, t->across, d, row, EVERY, others);
                side_fill(&t->b, t->across, d, out, EVERY, others);
                alike &= all_alike(t, row, EVERY, out, EVERY);
            }
    return alike;
}

bool blas_keeps_places(BlasProduct *product) {
    enum { ROUNDS = 4 };
    _Alignas(64) float a[BLAS_ROWS * BLAS_DEPTH], b[BLAS_OUTS * BLAS_DEPTH];
    Draws d = draws_open(1, DRAW_TEST, 0);
    for (int round = 0; round < 2 * ROUNDS; round++) {
        Trial t = {.product = product, .across = round % 2, .a = {BLAS_ROWS, a, {0}}, .b = {BLAS_OUTS, b, {0}}};
        for (int e = 0; e < BLAS_DEPTH; e++) t.a.vector[e] = element(&d), t.b.vector[e] = element(&d);
        side_fill(&t.a, t.across, &d, 0, 1, OTHERS_EQUAL);
        side_fill(&t.b, t.across, &d, 0, 1, OTHERS_EQUAL);
        product(t.across, a, b, t.c);
        t.want = t.c[0];
        if (!all_alike(&t, 0, 1, 0, 1) || !alone(&t, &d, &t.a, &t.b) || !alone(&t, &d, &t.b, &t.a) ||
            !among_others(&t, &d))
            return false;
    }
    return true;
}

const char *blas_fault(void) {
    static char text[192];
    const char *fault = openblas_get_parallel() == OPENBLAS_SEQUENTIAL ? "is built for one thread alone"
                        : blas_keeps_places(blas_product)              ? NULL
                                                                       : "gives a row other bits at another place";
    if (fault) snprintf(text, sizeof text, "%.120s %s", openblas_get_config(), fault);
    return fault ? text : NULL;
}
