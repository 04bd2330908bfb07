/* How members start, told by what their papers say of it (docs/spec.md 5). */
#include "base/err.h"
#include "base/memory.h"
#include "model/transformer.h"
#include "tests/support/test.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>

/* The parameter `name` of a new run of the config, malloc'ed; *n elements. */
static float *start_of(const Config *c, const char *name, size_t *n) {
    Model m;
    Err err = {""};
    if (model_init(&m, c, &err)) return test_fail(__FILE__, __LINE__, "%s", err.msg), NULL;
    const Param *p = params_find(&m.params, name);
    BUG_ON(!p);
    *n = weight_count(p->weight);
    float *value = xmalloc(*n * sizeof *value);
    param_init(p, 3, value);
    model_free(&m);
    return value;
}

/* "Noise factor as 0.01": a sigma of 0.01 whatever the token, which is log sigma^2 = 2 ln 0.01. */
TEST(starts_conditioned_noise) {
    Config c;
    REQUIRE(preset_config(&c, "noiseformer-v2-nano", NULL) == 0);
    c.noise.condition_dim = 8;
    size_t n;
    float *up = start_of(&c, "model.layers.1.self_attn.noise.condition.up.bias", &n);
    REQUIRE(n == 8);
    for (int h = 0; h < 4; h++) CHECK(up[h] == 0 && fabs(exp(0.5 * (double)up[4 + h]) - 0.01) < 1e-8);
    free(up);
}

/* Xavier's bound on [d, H, R] and [d, R, D], torch's fans: H R in and d R out, R D in and d D out. */
TEST(starts_tpa) {
    static const struct {
        const char *name;
        double m, n;
    } factors[] = {{"a_q_proj", 12, 6}, {"a_k_proj", 12, 2}, {"a_v_proj", 12, 2},
                   {"b_q_proj", 6, 64}, {"b_k_proj", 2, 64}, {"b_v_proj", 2, 64}};
    Config c;
    REQUIRE(preset_config(&c, "tpa-tiny", NULL) == 0);
    for (size_t i = 0; i < COUNTOF(factors); i++) {
        size_t count;
        const char *name = test_text("model.layers.0.self_attn.%s.weight", factors[i].name);
        float *w = start_of(&c, name, &count);
        REQUIRE((double)count == factors[i].m * factors[i].n * 256);
        double bound = sqrt(6 / (factors[i].m * factors[i].n + 256 * factors[i].n)), most = 0, squares = 0;
        for (size_t k = 0; k < count; k++) {
            most = fmax(most, fabs((double)w[k]));
            squares += (double)w[k] * w[k];
        }
        CHECK_MSG(most <= bound * (1 + 1e-6) && most > 0.99 * bound, "%s: %g, bound %g", name, most, bound);
        CHECK(fabs(sqrt(3 * squares / (double)count) / bound - 1) < 0.02);
        free(w);
    }
}

/* Of the weight `name`: the root of the mean square. */
static double deviation_of(const Config *c, const char *name) {
    size_t n;
    float *w = start_of(c, name, &n);
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)w[i] * w[i];
    free(w);
    return sqrt(squares / (double)n);
}

/* "Half the typical Kaiming scale", with branches and where rank 0 leaves them out; its host has other starts. */
TEST(starts_noble_host) {
    Config host, branches;
    REQUIRE(preset_config(&host, "noble-host-tiny", NULL) == 0 && preset_config(&branches, "noble-tiny", NULL) == 0);
    Config start = branches;
    start.noble.rank = 0;
    const struct {
        const char *name;
        int in;
        double host;
    } weights[] = {{"model.layers.1.self_attn.q_proj.weight", host.hidden_size, 0.02},
                   {"model.layers.1.self_attn.o_proj.weight", host.hidden_size, 0.02 / sqrt(2.0 * host.n_layers)},
                   {"model.layers.1.mlp.down_proj.weight", host.mlp.width, 0.02 / sqrt(2.0 * host.n_layers)}};
    for (size_t i = 0; i < COUNTOF(weights); i++) {
        const char *name = weights[i].name;
        double want = 0.5 / sqrt(weights[i].in), got = deviation_of(&start, name);
        CHECK_MSG(fabs(got / want - 1) < 0.01, "%s: %g, not %g", name, got, want);
        CHECK(got == deviation_of(&branches, name));
        CHECK(fabs(deviation_of(&host, name) / weights[i].host - 1) < 0.01);
    }
    start.noble.recipe = RECIPE_KAIMING;
    CHECK(fabs(deviation_of(&start, weights[0].name) * sqrt(weights[0].in) - 1) < 0.01);
    Model m, h;
    Err err = {""};
    REQUIRE(model_init(&m, &start, &err) == 0 && model_init(&h, &host, &err) == 0);
    CHECK(params_count(&m.params) == params_count(&h.params) && m.params.n == h.params.n);
    model_free(&m);
    model_free(&h);
}

/* Each of CosNet's cosines has a frequency and a phase of its own, the middle one of three too. */
TEST(starts_cosnet) {
    static const char *const places[] = {"in", "mid", "out"};
    Config c;
    REQUIRE(preset_config(&c, "noble-tiny", NULL) == 0);
    c.noble.layers = 3;
    for (size_t i = 0; i < COUNTOF(places); i++) {
        size_t n;
        float *freq = start_of(&c, test_text("model.layers.0.mlp.down_proj.noble.freq_%s", places[i]), &n);
        float *phase = start_of(&c, test_text("model.layers.0.mlp.down_proj.noble.phase_%s", places[i]), &n);
        REQUIRE(n == 16);
        double sum = 0;
        for (size_t k = 0; k < n; k++) {
            CHECK(freq[k] >= 0.8f && freq[k] <= 1.2f && fabsf(phase[k]) < 0.5f);
            sum += fabs((double)phase[k]);
        }
        CHECK(sum > 0.4 && sum < 3);
        free(freq);
        free(phase);
    }
}

/* "W_up near zero": 0.01 / sqrt(r); the branch reads by N(0, 1 / sqrt(in)) and mixes by Xavier, sqrt(6 / 2r). */
TEST(starts_noble_branch) {
    Config c;
    REQUIRE(preset_config(&c, "noble-tiny", NULL) == 0);
    double r = c.noble.rank;
    const struct {
        const char *name;
        double want;
    } weights[] = {{"down", 1 / sqrt(c.mlp.width)}, {"mix", sqrt(6 / (2 * r) / 3)}, {"up", 0.01 / sqrt(r)}};
    for (size_t i = 0; i < COUNTOF(weights); i++) {
        const char *name = test_text("model.layers.0.mlp.down_proj.noble.%s.weight", weights[i].name);
        double got = deviation_of(&c, name);
        CHECK_MSG(fabs(got / weights[i].want - 1) < 0.1, "%s: %g, not %g", name, got, weights[i].want);
    }
}

/* As torch's layers start, and its Appendix L: uniform in 1 / sqrt(fan in), that of a convolution heads times kernel.
 */
TEST(starts_sas) {
    Config c;
    REQUIRE(preset_config(&c, "sas-tiny", NULL) == 0);
    double heads = c.n_heads, heads_x = c.sas.heads, kernel = c.sas.kernel, dim = c.head_dim, dim_x = c.sas.head_dim;
    const struct {
        const char *name;
        double fan_in;
    } weights[] = {
        {"head_in", heads * kernel}, {"head_out", heads_x * kernel}, {"feature_in", dim}, {"feature_out", dim_x}};
    for (size_t i = 0; i < COUNTOF(weights); i++) {
        const char *name = test_text("model.layers.1.self_attn.sas.q.%s.weight", weights[i].name);
        double got = deviation_of(&c, name), want = 1 / sqrt(3 * weights[i].fan_in);
        CHECK_MSG(fabs(got / want - 1) < 0.1, "%s: %g, not %g", name, got, want);
    }
}
