/* Training's products of pairs on the amx level over a model of its tiles, on any machine with AVX-512; on one with
 * tiles, the model against them. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/model/amx_machine.h"
#include "tests/support/test.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl")
#pragma GCC diagnostic ignored "-Wunused-function"
#include "model/kernels/vectors/lanes_avx512.h"
#include "tests/model/tiles_model.h"

#include "model/kernels/train_body.h"

#include "model/kernels/amx_body.h"

#include "model/kernels/amx_train_body.h"

#include <stdlib.h>

/* A [m, k] and B [k, n] in floats that bf16 holds. Everything lies at the end of its memory, so that a sanitizer sees
 * what reads or writes beyond. */
typedef struct Problem {
    int m, n, k, units;
    float *a, *b, *before, *got, *want;
} Problem;

static Problem problem_new(Draws *d, int m, int n, int k) {
    Problem p = {.m = m, .n = n, .k = k, .units = (k + 1) / 2};
    size_t na = (size_t)m * (size_t)k, nb = (size_t)k * (size_t)n, nc = (size_t)m * (size_t)n;
    p.a = xmalloc(na * sizeof *p.a), p.b = xmalloc(nb * sizeof *p.b);
    p.before = xmalloc(nc * sizeof *p.before), p.got = xmalloc(nc * sizeof *p.got);
    p.want = xmalloc(nc * sizeof *p.want);
    for (size_t e = 0; e < na; e++) p.a[e] = bf16_to_f32(f32_to_bf16((float)draw_normal(d)));
    for (size_t e = 0; e < nb; e++) p.b[e] = bf16_to_f32(f32_to_bf16((float)draw_normal(d)));
    for (size_t e = 0; e < nc; e++) p.before[e] = (float)draw_normal(d);
    return p;
}

static void problem_free(Problem *p) {
    float *all[] = {p->a, p->b, p->before, p->got, p->want};
    for (size_t i = 0; i < COUNTOF(all); i++) free(all[i]);
}

typedef enum Form { FORM_PANELS, FORM_ROWS, FORM_TAPS, N_FORMS } Form; /* of A, of A, of B */

/* Words of n vectors in panels of `panel`. */
static uint32_t *panels_new(const Problem *p, int n, int panel) {
    return xcalloc((size_t)((n + panel - 1) / panel * panel) * (size_t)p->units, sizeof(uint32_t));
}

static Panels rows_of(const Problem *p, Form form, uint32_t **words) {
    size_t units = (size_t)p->units;
    if (form == FORM_PANELS) {
        float *turned = xmalloc((size_t)p->m * (size_t)p->k * sizeof *turned);
        for (int i = 0; i < p->m; i++)
            for (int e = 0; e < p->k; e++) turned[e * p->m + i] = p->a[i * p->k + e];
        *words = panels_new(p, p->m, AMX_PANEL_ROWS);
        pack_tile_rows(&(PackSource){turned, p->m, p->k, 1, (size_t)p->m}, *words);
        free(turned);
        return (Panels){.at = *words, .words = AMX_PANEL_ROWS * units};
    }
    *words = xmalloc((size_t)p->m * units * sizeof **words);
    for (int i = 0; i < p->m; i++) pair_row(p->k, p->a + i * p->k, *words + (size_t)i * units);
    return (Panels){.at = *words, .words = AMX_PANEL_ROWS * units, .row = units};
}

/* Taps: the units of B from the last to the first, each with room for whole vectors behind it. */
static Panels columns_of(const Problem *p, Form form, uint32_t **words, int *taps) {
    size_t units = (size_t)p->units, wide = (size_t)p->n + AMX_PANEL_COLUMNS;
    if (form != FORM_TAPS) {
        *words = panels_new(p, p->n, AMX_PANEL_COLUMNS);
        pack_columns(true, &(PackSource){p->b, p->n, p->k, 1, (size_t)p->n}, *words);
        return (Panels){.at = *words, .words = AMX_PANEL_COLUMNS * units};
    }
    *words = xcalloc(units * wide, sizeof **words);
    for (int u = 0; u < p->units; u++) {
        taps[u] = (int)((size_t)(p->units - 1 - u) * wide);
        for (int j = 0; j < p->n; j++) {
            float odd = 2 * u + 1 < p->k ? p->b[(2 * u + 1) * p->n + j] : 0;
            (*words)[taps[u] + j] = f32_to_bf16(p->b[2 * u * p->n + j]) | (uint32_t)f32_to_bf16(odd) << 16;
        }
    }
    return (Panels){.at = *words, .words = AMX_PANEL_COLUMNS, .taps = taps};
}

static void check_sums(const Problem *p, Form form, bool add) {
    for (int e = 0; e < p->m * p->n; e++) {
        double sum = add ? (double)p->before[e] : 0, size = fabs(sum);
        for (int l = 0; l < p->k; l++) {
            double product = (double)p->a[e / p->n * p->k + l] * (double)p->b[l * p->n + e % p->n];
            sum += product, size += fabs(product);
        }
        CHECK_MSG(fabs((double)p->got[e] - sum) <= 1e-6 * size, "form %d, %d x %d x %d%s: [%d] is %g, not %g", form,
                  p->m, p->n, p->k, add ? ", added" : "", e, (double)p->got[e], sum);
    }
}

static void check_form(const Kernels *hardware, Problem *p, Form form, bool add) {
    size_t bytes = (size_t)p->m * (size_t)p->n * sizeof *p->got, ldc = (size_t)p->n;
    uint32_t *a_words, *b_words;
    int *taps = xmalloc((size_t)p->units * sizeof *taps);
    Panels a = rows_of(p, form, &a_words), b = columns_of(p, form, &b_words, taps);
    memcpy(p->got, p->before, bytes);
    memcpy(p->want, p->before, bytes);
    tile_multiply(p->m, p->n, p->units, a, b, p->got, ldc, add);
    check_sums(p, form, add);
    if (hardware) {
        hardware->train->multiply(true, p->m, p->n, p->units, a, b, p->want, ldc, add);
        CHECK_MSG(!memcmp(p->want, p->got, bytes), "form %d, %d x %d x %d: the tiles differ", form, p->m, p->n, p->k);
    }
    free(a_words);
    free(b_words);
    free(taps);
}

/* Rows whose elements are neighbours come to the same panels. */
static void check_packing(const Problem *p) {
    uint32_t *turned, *along = panels_new(p, p->m, AMX_PANEL_ROWS);
    Panels panels = rows_of(p, FORM_PANELS, &turned);
    size_t words = (size_t)((p->m + AMX_PANEL_ROWS - 1) / AMX_PANEL_ROWS) * panels.words;
    pack_tile_rows(&(PackSource){p->a, p->m, p->k, (size_t)p->k, 1}, along);
    CHECK_MSG(!memcmp(turned, along, words * sizeof *along), "%d rows of %d", p->m, p->k);
    free(turned);
    free(along);
}

#pragma GCC pop_options

TEST(kernels_amx_training) {
    static const int ns[] = {1, 15, 16, 17, 32, 33, 63, 64, 97}, ks[] = {1, 2, 31, 32, 33, 64, 95, 321};
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    Draws d = draws_open(32, DRAW_TEST, 0);
    for (size_t round = 0; round < (SANITIZED ? 24 : 96); round++) {
        int m = ns[draw_below(&d, COUNTOF(ns))], n = ns[draw_below(&d, COUNTOF(ns))];
        Problem p = problem_new(&d, m, n, ks[round % COUNTOF(ks)]);
        check_packing(&p);
        for (Form form = 0; form < N_FORMS; form++) check_form(hardware, &p, form, draw_below(&d, 2));
        problem_free(&p);
    }
}
#endif
