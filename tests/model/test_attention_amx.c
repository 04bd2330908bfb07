/* Attention by blocks in amx's arithmetic, over a model of its tiles, on any machine with AVX-512: tiles against what
 * few rows are made of, against the tiles of the hardware where there are some, and a network's rows against themselves
 * in other company. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/isa.h"
#include "model/kv.h"
#include "model/shape.h"
#include "tests/model/amx_machine.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/presets.h"

#if defined(__x86_64__)
#pragma GCC diagnostic ignored "-Wunused-function" /* products have tests of their own */
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl")
#include "model/kernels/vectors/lanes_avx512.h"
#include "tests/model/tiles_model.h"

#include "model/kernels/amx_body.h"

#include "model/kernels/amx_attention_body.h"

_Static_assert((int)BLOCK_KEYS == (int)KV_BLOCK, "blocks of kernels are those of the cache");

#include <stdlib.h>

enum { MOST_ROWS = 70, MOST_PAIRS = 50, MOST_WIDTH = 100, LDS = 40, LDP = 38, BLOCKS = 2 };

/* Numbers of which some are so small that sums of their products are subnormal. */
static uint16_t *halves_new(Draws *d, size_t n) {
    uint16_t *x = xmalloc(n * sizeof *x + 1);
    for (size_t i = 0; i < n; i++)
        x[i] = f32_to_bf16((float)draw_normal(d) * (draw_below(d, 8) ? 1 : 0x1p-70f) * (draw_below(d, 8) ? 1 : 0));
    return x;
}

static void check_scores(const Kernels *hardware, Draws *d, int n, int pairs) {
    size_t count = (size_t)n * LDS, width = (size_t)pairs * 2;
    uint16_t *q[BLOCKS], *k[BLOCKS];
    float *s[3][BLOCKS];
    ScoresBlock b[3][BLOCKS];
    for (int j = 0; j < BLOCKS; j++) {
        q[j] = halves_new(d, (size_t)n * width), k[j] = halves_new(d, width * KV_BLOCK);
        for (int way = 0; way < 3; way++) {
            s[way][j] = xcalloc(count, sizeof(float));
            b[way][j] = (ScoresBlock){q[j], k[j], s[way][j]};
        }
    }
    tiles_scores(BLOCKS, b[0], (size_t)n, (size_t)pairs, LDS);
    few_scores(BLOCKS, b[1], (size_t)n, (size_t)pairs, LDS);
    if (hardware) hardware->scores_blocks(BLOCKS, b[2], n, pairs, LDS);
    for (int j = 0; j < BLOCKS; j++) {
        CHECK_MSG(!memcmp(s[0][j], s[1][j], count * sizeof(float)), "%d rows, %d pairs: few rows differ", n, pairs);
        CHECK_MSG(!hardware || !memcmp(s[0][j], s[2][j], count * sizeof(float)), "%d rows, %d pairs: the tiles differ",
                  n, pairs);
        for (int i = 0; i < n * KV_BLOCK; i++) {
            double exact = 0, size = 1e-30;
            for (int e = 0; e < 2 * pairs; e++) {
                double product = (double)bf16_to_f32(q[j][i / KV_BLOCK * 2 * pairs + e]) *
                                 (double)bf16_to_f32(k[j][kv_key_at(DTYPE_BF16, e, i % KV_BLOCK)]);
                exact += product, size += fabs(product);
            }
            double got = (double)s[0][j][i / KV_BLOCK * LDS + i % KV_BLOCK];
            CHECK_MSG(fabs(got - exact) <= 1e-6 * size, "%d rows, %d pairs: [%d] is %g, not %g", n, pairs, i, got,
                      exact);
        }
        free(q[j]), free(k[j]);
        for (int way = 0; way < 3; way++) free(s[way][j]);
    }
}

static void check_mix(const Kernels *hardware, Draws *d, int n, int width, int keys) {
    size_t count = (size_t)n * (size_t)width;
    uint16_t *p = halves_new(d, (size_t)n * LDP), *v = halves_new(d, (size_t)(KV_BLOCK * width));
    float *acc[3], *first = xmalloc(count * sizeof *first);
    for (int j = keys; j < KV_BLOCK; j++) { /* what is not seen is a former request's */
        for (int i = 0; i < n; i++) p[i * LDP + j] = 0;
        for (int e = 0; e < width; e++) v[kv_value_at(DTYPE_BF16, width, e, j)] = 0x7fc0;
    }
    for (size_t i = 0; i < count; i++) first[i] = (float)draw_normal(d);
    for (int way = 0; way < 3; way++) {
        acc[way] = xmalloc(count * sizeof(float));
        memcpy(acc[way], first, count * sizeof(float));
        MixBlock b = {p, v, acc[way], keys};
        if (way == 0) tiles_mix(1, &b, (size_t)n, (size_t)width, LDP / 2);
        if (way == 1) few_mix(1, &b, (size_t)n, (size_t)width, LDP / 2);
        if (way == 2 && hardware) hardware->mix_blocks(1, &b, n, width, LDP);
    }
    for (size_t i = 0; i < count; i++) {
        double exact = (double)first[i], size = fabs(exact) + 1e-30;
        for (int j = 0; j < keys; j++) {
            double product = (double)bf16_to_f32(p[i / (size_t)width * LDP + (size_t)j]) *
                             (double)bf16_to_f32(v[kv_value_at(DTYPE_BF16, width, (int)(i % (size_t)width), j)]);
            exact += product, size += fabs(product);
        }
        CHECK_MSG(acc[0][i] == acc[1][i], "%d rows of %d, %d keys: few rows differ", n, width, keys);
        CHECK_MSG(!hardware || acc[0][i] == acc[2][i], "%d rows of %d, %d keys: the tiles differ", n, width, keys);
        CHECK_MSG(fabs((double)acc[0][i] - exact) <= 1e-6 * size, "%d rows of %d, %d keys: [%zu] is %g, not %g", n,
                  width, keys, i, (double)acc[0][i], exact);
    }
    free(p), free(v), free(first);
    for (int way = 0; way < 3; way++) free(acc[way]);
}

/* The level that computes elsewhere, with attention over the model of tiles. */
static Kernels modelled_kernels(void) {
    Kernels k = *kernels;
    k.scores_blocks = scores_blocks, k.mix_blocks = mix_blocks;
    return k;
}
#pragma GCC pop_options

TEST(attention_amx_few_rows_are_tiles) {
    static const int rows[] = {1, 4, 5, 16, 17, 32, 33, MOST_ROWS}, pairs[] = {1, 2, 16, 17, 32, 40, MOST_PAIRS};
    static const int widths[] = {1, 8, 16, 31, 32, 48, 64, MOST_WIDTH}, keys[] = {1, 2, 15, 16, 17, 31, 32};
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    Draws d = draws_open(51, DRAW_TEST, 0);
    for (int round = 0; round < (SANITIZED ? 20 : 80); round++) {
        int n = rows[draw_below(&d, COUNTOF(rows))];
        check_scores(hardware, &d, n, pairs[round % (int)COUNTOF(pairs)]);
        check_mix(hardware, &d, n, widths[draw_below(&d, COUNTOF(widths))], keys[round % (int)COUNTOF(keys)]);
    }
}

/* ---- a network of BF16 weights ---- */

enum { LENGTH = 75, VOCAB = 40 };

/* Its matrices, whose memory is the caller's. */
static uint16_t *to_bf16_weights(TestModel *t) {
    uint16_t *all = xmalloc(t->count * sizeof *all), *next = all;
    for (int i = 0; i < t->model.params.n; i++) {
        const Param *p = &t->model.params.params[i];
        if (!p->matrix) continue;
        size_t n = weight_count(p->weight);
        for (size_t e = 0; e < n; e++) next[e] = f32_to_bf16(weight_f32(p->weight)[e]);
        p->weight->data = next;
        p->weight->dtype = DTYPE_BF16;
        next += n;
    }
    return all;
}

static float *serve(const TestModel *t, const int *tokens, const Kernels *by, const int *chunks, int n_chunks) {
    const Kernels *own = kernels;
    kernels = by;
    float *logits = test_serve_form(&t->model, tokens, LENGTH, (NoiseKey){.seed = 5, .scale = 1}, chunks, n_chunks,
                                    config_kv_form(&t->model.cfg), DTYPE_BF16);
    kernels = own;
    return logits;
}

static void check_network(const char *name) {
    static const int chunks[][3] = {{LENGTH}, {1}, {40, 35}, {33, 1, 41}, {5}, {31, 2, 17}};
    TestModel t;
    Config c;
    int tokens[LENGTH];
    REQUIRE(preset_config(&c, name, NULL) == 0);
    c.vocab_size = VOCAB, c.max_positions = 2 * LENGTH;
    REQUIRE(test_model_init(&t, &c, 3));
    uint16_t *weights = to_bf16_weights(&t);
    Kernels modelled = modelled_kernels(), common = *kernels;
    common.scores_blocks = NULL;
    size_t vocab = VOCAB, count = vocab * LENGTH;
    for (int i = 0; i < LENGTH; i++) tokens[i] = i % (VOCAB - 1);
    float *near = serve(&t, tokens, &common, chunks[0], 1), *want = serve(&t, tokens, &modelled, chunks[0], 1);
    for (size_t i = 0; i < count; i++)
        CHECK_MSG(fabsf(near[i] - want[i]) < 0.05f * (1 + fabsf(near[i])), "%s: [%zu] is %g by blocks, %g without",
                  name, i, (double)want[i], (double)near[i]);
    for (size_t k = 1; k < COUNTOF(chunks); k++) {
        float *got = serve(&t, tokens, &modelled, chunks[k], (int)COUNTOF(chunks[k]) - 2 * !chunks[k][1]);
        CHECK_MSG(!memcmp(got, want, count * sizeof *got), "%s: other bits in chunks of %d", name, chunks[k][0]);
        free(got);
    }
    /* The last row sees what is not a number; nobody else does. */
    tokens[LENGTH - 1] = VOCAB - 1;
    for (int e = 0; e < c.hidden_size; e++)
        ((uint16_t *)t.model.embed.data)[(vocab - 1) * (size_t)c.hidden_size + (size_t)e] = 0x7fc0;
    float *got = serve(&t, tokens, &modelled, chunks[0], 1);
    CHECK(isnan(got[count - 2]));
    for (size_t i = 0; i + vocab < count; i++)
        if (i % vocab < vocab - 1)
            CHECK_MSG(got[i] == want[i], "%s: [%zu] is %g beside NaN, not %g", name, i, (double)got[i],
                      (double)want[i]);
    free(near), free(want), free(got), free(weights);
    test_model_free(&t);
}

TEST(attention_amx_rows_are_the_same_in_any_company) {
    static const char *const names[] = {"mha-nano", "gqa-nano", "mqa-nano", "mla-nano", "noiseformer-v2-nano"};
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    int team = team_size();
    team_resize(1); /* the model has one set of tiles */
    for (size_t i = 0; i < COUNTOF(names); i++) check_network(names[i]);
    team_resize(team);
}
#endif
