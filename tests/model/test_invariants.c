/* What the papers say must hold whatever the weights are: members of the family that coincide, and bounds. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/noise.h"
#include "model/shape.h"
#include "model/ops/op.h"
#include "tests/support/models.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 21 };

static const NoiseKey KEY = {.seed = 99, .scale = 1};

/* Logits of a fixed text by the serving path, malloc'ed. */
static float *logits_under(const TestModel *t, NoiseKey key) {
    int tokens[LENGTH], chunk = LENGTH;
    Draws d = draws_open(4, DRAW_TEST, 0);
    for (int i = 0; i < LENGTH; i++) tokens[i] = (int)draw_below(&d, (uint64_t)t->model.cfg.vocab_size);
    return test_serve(&t->model, tokens, LENGTH, key, &chunk, 1);
}

static float *logits_of(const TestModel *t) { return logits_under(t, KEY); }

static double distance(const TestModel *a, const TestModel *b) {
    float *x = logits_of(a), *y = logits_of(b);
    double worst = 0;
    for (int i = 0; i < LENGTH * a->model.cfg.vocab_size; i++) worst = fmax(worst, fabs((double)x[i] - y[i]));
    free(x);
    free(y);
    return worst;
}

static Weight *weight(const TestModel *t, const char *name) {
    const Param *p = params_find(&t->model.params, name);
    BUG_ON(!p);
    return p->weight;
}

static void fill(Weight *w, float value) {
    for (size_t i = 0; i < weight_count(w); i++) weight_f32(w)[i] = value;
}

/* Copies every parameter of `from` that `to` has too, by name and size. */
static void copy_shared(TestModel *to, const TestModel *from) {
    for (int i = 0; i < to->model.params.n; i++) {
        Weight *w = to->model.params.params[i].weight;
        const Param *p = params_find(&from->model.params, w->name);
        if (p && weight_count(p->weight) == weight_count(w))
            memcpy(w->data, p->weight->data, weight_count(w) * sizeof(float));
    }
}

/* Calls edit on every parameter whose name ends in `suffix`. */
static void each_named(TestModel *t, const char *suffix, void (*edit)(Weight *w)) {
    int found = 0;
    for (int i = 0; i < t->model.params.n; i++) {
        Weight *w = t->model.params.params[i].weight;
        size_t n = strlen(w->name), m = strlen(suffix);
        if (n >= m && !strcmp(w->name + n - m, suffix)) {
            edit(w);
            found++;
        }
    }
    BUG_ON(!found);
}

static void set_zero(Weight *w) { fill(w, 0); }

/* The leading square of a matrix is the identity, the rest 0; of a stack of matrices, each one. */
static void set_identity(Weight *w) {
    int rows = w->dims[w->n_dims - 2], columns = w->dims[w->n_dims - 1], count = w->n_dims == 3 ? w->dims[0] : 1;
    set_zero(w);
    for (int m = 0; m < count; m++)
        for (int i = 0; i < MIN(rows, columns); i++) weight_f32(w)[(m * rows + i) * columns + i] = 1;
}

/* [I; I; I]: expanded head o is head o mod H, read at the middle tap. */
static void set_tiled(Weight *w) {
    int heads = w->dims[1], kernel = w->dims[2];
    set_zero(w);
    for (int o = 0; o < w->dims[0]; o++) weight_f32(w)[(o * heads + o % heads) * kernel + kernel / 2] = 1;
}

/* SAS eq. 2-4: a convolution of kernel 1 is a linear map over the heads. */
TEST(sas_kernel_one_is_linear_over_heads) {
    enum { HEADS = 3, OUT = 4, DIM = 5 };
    float w[OUT * HEADS], b[OUT];
    Weight ww = {.n_dims = 3, .dims = {OUT, HEADS, 1}, .data = w}, wb = {.n_dims = 1, .dims = {OUT}, .data = b};
    Draws d = draws_open(1, DRAW_TEST, 5);
    Tape t;
    tape_init(&t, false);
    Mat *x = tape_mat(&t, 2, HEADS * DIM);
    for (int i = 0; i < OUT * HEADS; i++) w[i] = (float)draw_normal(&d);
    for (int i = 0; i < OUT; i++) b[i] = (float)draw_normal(&d);
    for (int i = 0; i < 2 * HEADS * DIM; i++) x->x[i] = (float)draw_normal(&d);
    Mat *y = op_head_conv(&t, x, &ww, &wb, DIM);
    for (int i = 0; i < 2; i++)
        for (int o = 0; o < OUT; o++)
            for (int l = 0; l < DIM; l++) {
                float want = b[o];
                for (int c = 0; c < HEADS; c++) want += w[o * HEADS + c] * x->x[(i * HEADS + c) * DIM + l];
                CHECK(fabsf(y->x[(i * OUT + o) * DIM + l] - want) < 1e-5f);
            }
    tape_free(&t);
}

/* PEAA, SAS eq. 12: averaging the groups first is projecting each and averaging. */
TEST(sas_average_then_project_is_project_then_average) {
    enum { GROUPS = 3, WIDTH = 6, OUT = 4 };
    float w[OUT * WIDTH];
    Weight o_proj = {.n_dims = 2, .dims = {OUT, WIDTH}, .data = w};
    Draws d = draws_open(1, DRAW_TEST, 6);
    Tape t;
    tape_init(&t, false);
    Mat *x = tape_mat(&t, 1, GROUPS * WIDTH);
    for (int i = 0; i < OUT * WIDTH; i++) w[i] = (float)draw_normal(&d);
    for (int i = 0; i < GROUPS * WIDTH; i++) x->x[i] = (float)draw_normal(&d);
    Mat *a = op_linear(&t, op_head_average(&t, x, GROUPS), &o_proj, NULL);
    Mat *b = op_linear(&t, tape_view(&t, x, GROUPS, WIDTH), &o_proj, NULL);
    for (int k = 0; k < OUT; k++)
        CHECK(fabsf(a->x[k] - (b->x[k] + b->x[OUT + k] + b->x[2 * OUT + k]) / GROUPS) < 1e-5f);
    tape_free(&t);
}

/* Heads tiled, second layers silent, features embedded: SAS is MHA whose scores are divided by sqrt(Dx), not sqrt(D).
 */
TEST(sas_of_identities_is_mha) {
    Config plain = test_variant(attention_kind_find("mha"), "plain"), sas = plain;
    sas.sas.heads = 3 * sas.n_heads;
    sas.sas.head_dim = 6;
    sas.sas.kernel = 3;
    sas.sas.relu = true;
    TestModel a, b;
    REQUIRE(test_model_init(&a, &plain, 31));
    REQUIRE(test_model_init(&b, &sas, 32));
    copy_shared(&b, &a);
    each_named(&b, "head_in.weight", set_tiled);
    each_named(&b, "feature_in.weight", set_identity);
    static const char *const silent[] = {"head_in.bias",    "head_out.weight",    "head_out.bias",
                                         "feature_in.bias", "feature_out.weight", "feature_out.bias"};
    for (size_t k = 0; k < COUNTOF(silent); k++) each_named(&b, silent[k], set_zero);
    float scale = sqrtf(4.0f / 6.0f);
    for (int l = 0; l < plain.n_layers; l++) {
        for (int k = 0; k < 2; k++) {
            Weight *w = weight(&a, test_text("model.layers.%d.self_attn.q_proj.%s", l, k ? "bias" : "weight"));
            for (size_t i = 0; i < weight_count(w); i++) weight_f32(w)[i] *= scale;
        }
    }
    CHECK_MSG(distance(&a, &b) < 2e-5, "they differ by %g", distance(&a, &b));
    test_model_free(&a);
    test_model_free(&b);
}

/* A branch with up = 0 is no branch, whatever is inside. */
TEST(noble_without_output_is_plain) {
    for (int activation = 0; activation < 5; activation++) {
        Config plain = test_variant(attention_kind_find("symmetric"), "plain"), noble = plain;
        noble.noble.rank = 3;
        noble.noble.activation = (NobleActivation)activation;
        noble.noble.layers = activation == NOBLE_COSNET ? 3 : 2;
        TestModel a, b;
        REQUIRE(test_model_init(&a, &plain, 33));
        REQUIRE(test_model_init(&b, &noble, 34));
        copy_shared(&b, &a);
        CHECK(distance(&a, &b) > 1e-3);
        each_named(&b, "noble.up.weight", set_zero);
        CHECK(distance(&a, &b) == 0);
        test_model_free(&a);
        test_model_free(&b);
    }
}

/* CosNet is bounded by 1: a branch moves output j by at most the sum of |up[j, :]|. */
TEST(noble_branch_is_bounded) {
    enum { IN = 7, OUT = 5, ROWS = 40 };
    Config c = test_variant(attention_kind_find("mha"), "noble");
    ParamSet ps = {0};
    Linear with, without;
    linear_declare(&with, &ps, &c, "with", IN, OUT, LINEAR_QKV);
    float *data = xcalloc(params_count(&ps), sizeof(float));
    params_bind_flat(&ps, data, NULL);
    Draws d = draws_open(2, DRAW_TEST, 7);
    for (size_t i = 0; i < params_count(&ps); i++) data[i] = 3 * (float)draw_normal(&d);
    without = with;
    without.has_noble = false;
    Tape t;
    tape_init(&t, false);
    Forward f = {.tape = &t, .cfg = &c};
    Mat *x = tape_mat(&t, ROWS, IN);
    for (int i = 0; i < ROWS * IN; i++) x->x[i] = 10 * (float)draw_normal(&d);
    Mat *y = linear(&f, &with, x), *base = linear(&f, &without, x);
    for (int j = 0; j < OUT; j++) {
        float bound = 0;
        for (int r = 0; r < c.noble.rank; r++) bound += fabsf(weight_f32(&with.noble.up)[j * c.noble.rank + r]);
        for (int i = 0; i < ROWS; i++) CHECK(fabsf(y->x[i * OUT + j] - base->x[i * OUT + j]) <= bound * 1.001f + 1e-4f);
    }
    tape_free(&t);
    params_free(&ps);
    free(data);
}

/* NoiseFormer with sigma = 0 is symmetric attention, for both scopes and every span. */
TEST(noise_of_sigma_zero_is_symmetric) {
    for (int form = 0; form < 6; form++) {
        int scope = form % 2 ? NOISE_LAYER : NOISE_HEAD;
        Config plain = test_variant(attention_kind_find("symmetric"), "plain"), noisy = plain;
        noisy.noise.scope = (NoiseScope)scope;
        noisy.noise.span = (NoiseSpan)(form / 2);
        TestModel a, b;
        REQUIRE(test_model_init(&a, &plain, 35));
        REQUIRE(test_model_init(&b, &noisy, 36));
        copy_shared(&b, &a);
        CHECK(distance(&a, &b) > 1e-3);
        each_named(&b, "noise.sigma", set_zero);
        CHECK(distance(&a, &b) < 1e-5);
        test_model_free(&a);
        test_model_free(&b);
    }
}

static void set_first(Weight *w) { fill(w, weight_f32(w)[0]); }

/* A mixture whose components are all alike is one Gaussian; told apart, their means act. */
TEST(noise_mixture_of_one_kind_is_gaussian) {
    Config gaussian = test_variant(attention_kind_find("symmetric"), "plain"), mixture;
    gaussian.noise.scope = NOISE_LAYER;
    mixture = gaussian;
    mixture.noise.density = DENSITY_MIXTURE;
    mixture.noise.components = 3;
    TestModel a, b;
    REQUIRE(test_model_init(&a, &gaussian, 37));
    REQUIRE(test_model_init(&b, &mixture, 38));
    copy_shared(&b, &a);
    each_named(&b, "noise.mu", set_first);
    each_named(&b, "noise.sigma", set_first);
    for (int l = 0; l < gaussian.n_layers; l++) {
        const Noise *from = &b.model.blocks[l].attention.noise;
        Noise *to = &a.model.blocks[l].attention.noise;
        fill(&to->mu, weight_f32(&from->mu)[0]);
        fill(&to->sigma, weight_f32(&from->sigma)[0]);
    }
    CHECK_MSG(distance(&a, &b) < 1e-5, "they differ by %g", distance(&a, &b));
    for (int l = 0; l < gaussian.n_layers; l++) weight_f32(&b.model.blocks[l].attention.noise.mu)[1] += 1;
    CHECK(distance(&a, &b) > 1e-3);
    test_model_free(&a);
    test_model_free(&b);
}

static void twice(Weight *w) {
    for (size_t i = 0; i < weight_count(w); i++) weight_f32(w)[i] *= 2;
}

/* Of a sequence that has a component the scale weighs the mean as well, and without Gaussians the mean is all. */
TEST(noise_scale_weighs_the_mean_of_a_component) {
    static const char *const variants[] = {"components", "residual"};
    const NoiseKey noise = {.seed = 99, .scale = 2, .component = 2}, once = {.seed = 99, .scale = 1, .component = 2},
                   mean = {.seed = 99, .scale = 2, .component = 2, .means_only = true};
    for (size_t v = 0; v < COUNTOF(variants); v++) {
        Config c = test_variant(attention_kind_find("symmetric"), variants[v]);
        TestModel t;
        REQUIRE(test_model_init(&t, &c, 21));
        float *drawn = logits_under(&t, noise), *means = logits_under(&t, mean);
        each_named(&t, "noise.sigma", set_zero);
        float *quiet = logits_under(&t, noise);
        each_named(&t, "noise.mu", twice);
        float *doubled = logits_under(&t, once);
        size_t bytes = (size_t)(LENGTH * c.vocab_size) * sizeof *means;
        CHECK_MSG(memcmp(means, drawn, bytes) && !memcmp(means, quiet, bytes), "%s: means alone", variants[v]);
        CHECK_MSG(!memcmp(doubled, quiet, bytes), "%s: twice the means", variants[v]);
        free(drawn);
        free(means);
        free(quiet);
        free(doubled);
        test_model_free(&t);
    }
}

/* Which one is drawn anew for every seed, micro-batch and row of it. */
TEST(noise_component_is_drawn_by_all_of_the_key) {
    Config c = test_variant(attention_kind_find("symmetric"), "components");
    for (int part = 0; part < 3; part++) {
        bool seen[NOISE_COMPONENTS_MAX] = {false};
        for (uint32_t i = 0; i < 64; i++) {
            const NoiseKey keys[] = {{.seed = i}, {.stream = i}, {.sequence = i}};
            seen[noise_component(&c, &keys[part])] = true;
        }
        for (int k = 0; k < config_noise_components(&c); k++) CHECK_MSG(seen[k], "part %d: component %d", part, k);
    }
}

/* What noise_deviation says of a mixture is how far the drawn noise really spreads. */
TEST(noise_deviation_is_that_of_the_draws) {
    enum { N = 200000 };
    static float eps[N], s[N];
    static uint16_t component[N];
    Config c = test_variant(attention_kind_find("symmetric"), "plain");
    c.noise.scope = NOISE_HEAD;
    c.noise.density = DENSITY_MIXTURE;
    c.noise.components = 3;
    TestModel t;
    REQUIRE(test_model_init(&t, &c, 39));
    const Noise *z = &t.model.blocks[0].attention.noise;
    float told[16];
    weight_f32(&z->mu)[0] += 2;
    noise_deviation(&c, z, told);
    Tape tape;
    tape_init(&tape, false);
    const Mixture *mixtures = noise_mixtures(&tape, &c, z);
    for (int head = 0; head < c.n_heads; head++) {
        NoiseRow row = {.cfg = &c, .noise = z, .mixtures = mixtures, .head = head, .i = N, .n = N};
        row.key = (NoiseKey){.seed = 5, .scale = 1};
        double sum = 0, squares = 0;
        memset(s, 0, sizeof s);
        noise_row_draw(&row, eps, component);
        noise_row_add(&row, eps, component, s);
        for (int j = 0; j < N; j++) sum += s[j], squares += (double)s[j] * s[j];
        double drawn = sqrt(squares / N - sum / N * (sum / N));
        CHECK_MSG(fabs(drawn / told[head] - 1) < 0.01, "head %d: %g drawn, %g told", head, drawn, (double)told[head]);
    }
    tape_free(&tape);
    test_model_free(&t);
}

/* The lecture notes' attention is MHA of the full width whose queries are sqrt(d) times as long. */
TEST(lecture_is_mha_without_the_division) {
    Config lecture = test_variant(attention_kind_find("lecture"), "plain"), mha = lecture;
    mha.attention.kind = attention_kind_find("mha");
    TestModel a, b;
    REQUIRE(test_model_init(&a, &lecture, 42));
    REQUIRE(test_model_init(&b, &mha, 43));
    copy_shared(&b, &a);
    CHECK(distance(&a, &b) > 1e-3);
    for (int l = 0; l < lecture.n_layers; l++)
        for (int k = 0; k < 2; k++) {
            const char *q = test_text("model.layers.%d.self_attn.q_proj.%s", l, k ? "bias" : "weight");
            for (size_t i = 0; i < weight_count(weight(&b, q)); i++)
                weight_f32(weight(&b, q))[i] *= sqrtf((float)lecture.hidden_size);
        }
    CHECK_MSG(distance(&a, &b) < 2e-5, "they differ by %g", distance(&a, &b));
    test_model_free(&a);
    test_model_free(&b);
}

/* Symmetric attention is MHA whose K is its Q, pairwise with F = I is symmetric. */
TEST(symmetric_is_mha_with_k_equal_to_q) {
    Config symmetric = test_variant(attention_kind_find("symmetric"), "plain"), mha = symmetric, pairwise = symmetric;
    mha.attention.kind = attention_kind_find("mha");
    pairwise.attention.kind = attention_kind_find("pairwise");
    TestModel a, b, c;
    REQUIRE(test_model_init(&a, &symmetric, 39));
    REQUIRE(test_model_init(&b, &mha, 40));
    REQUIRE(test_model_init(&c, &pairwise, 41));
    copy_shared(&b, &a);
    copy_shared(&c, &a);
    for (int l = 0; l < symmetric.n_layers; l++)
        for (int k = 0; k < 2; k++) {
            const char *q = test_text("model.layers.%d.self_attn.q_proj.%s", l, k ? "bias" : "weight");
            memcpy(weight(&b, test_text("model.layers.%d.self_attn.k_proj.%s", l, k ? "bias" : "weight"))->data,
                   weight(&a, q)->data, weight_count(weight(&a, q)) * sizeof(float));
        }
    each_named(&c, "pair.weight", set_identity);
    CHECK(distance(&a, &b) == 0);
    CHECK(distance(&a, &c) < 1e-5);
    test_model_free(&a);
    test_model_free(&b);
    test_model_free(&c);
}
