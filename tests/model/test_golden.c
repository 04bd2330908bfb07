/* Every folder of tests/golden was computed in float64 by tests/oracle (PyTorch, written from the paper's equations):
 * logits, loss, all gradients and ten AdamW steps must come out the same here. Those of language models have all their
 * tokens as targets; others name targets of their own (make_tasks.py). */
#include "base/err.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "model/shape.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "trainer/optimizer.h"
#include "weights/config_json.h"
#include "weights/safetensors.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Golden {
    const char *name;
    TestModel t;
    SafeFile expected;
    cJSON *json;
    bool own_targets;
    int *inputs, *targets; /* [batch.n]; own: a target for each row of logits */
    float *weights;        /* of the targets; NULL: all 1 */
    Segment segments[8];
    Batch batch;
} Golden;

static double number(const Golden *g, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(g->json, key)->valuedouble;
}

static const float *expected(const Golden *g, const char *prefix, const char *name, size_t n) {
    const char *key = test_text("%s%s", prefix, name);
    const SafeTensor *t = safe_find(&g->expected, key);
    if (!t || t->bytes != n * sizeof(float)) {
        test_fail(__FILE__, __LINE__, "%s: no %s of %zu floats", g->name, key, n);
        return NULL;
    }
    return t->data;
}

static const cJSON *field(const Golden *g, const char *key) { return cJSON_GetObjectItemCaseSensitive(g->json, key); }

/* Segments of the rows, or of the images that expected.safetensors holds, and what they are to become. */
static void read_batch(Golden *g) {
    const cJSON *rows = field(g, "tokens"), *targets = field(g, "targets"), *weights = field(g, "weights");
    const SafeTensor *images = rows ? NULL : safe_find(&g->expected, "images");
    Batch *b = &g->batch;
    enum { MOST = 256 };
    g->own_targets = targets;
    g->inputs = xcalloc(MOST, sizeof(int));
    g->targets = xcalloc(MOST, sizeof(int));
    *b = (Batch){.segments = g->segments, .images = images ? images->data : NULL, .tokens = rows ? g->inputs : NULL};
    b->n_segments = rows ? cJSON_GetArraySize(rows) : images->dims[0];
    BUG_ON(b->n_segments > (int)COUNTOF(g->segments));
    for (int s = 0; s < b->n_segments; s++) {
        const cJSON *row = rows ? cJSON_GetArrayItem(rows, s) : NULL;
        int n = row ? cJSON_GetArraySize(row) - !targets : config_image_rows(&g->t.model.cfg);
        g->segments[s] = (Segment){.row0 = b->n, .n = n};
        for (int i = 0; row && i < n; i++) {
            g->inputs[b->n + i] = cJSON_GetArrayItem(row, i)->valueint;
            if (!targets) g->targets[b->n + i] = cJSON_GetArrayItem(row, i + 1)->valueint;
        }
        b->n += n;
    }
    BUG_ON(b->n > MOST);
    g->weights = weights ? xcalloc(MOST, sizeof(float)) : NULL;
    for (int i = 0; i < cJSON_GetArraySize(targets); i++) {
        g->targets[i] = cJSON_GetArrayItem(targets, i)->valueint;
        if (weights) g->weights[i] = (float)cJSON_GetArrayItem(weights, i)->valuedouble;
    }
}

static bool golden_open(Golden *g, const char *name) {
    Err err;
    Config c;
    SafeFile weights;
    size_t n;
    *g = (Golden){.name = name};
    if (config_json_load(&c, NULL, test_text("tests/golden/%s/config.json", name), &err)) goto failed;
    if (!test_model_init(&g->t, &c, 1)) return false;
    if (safe_open(&weights, test_text("tests/golden/%s/model.safetensors", name), &err)) goto failed;
    for (int i = 0; i < g->t.model.params.n; i++) {
        Weight *w = g->t.model.params.params[i].weight;
        const SafeTensor *t = safe_find(&weights, w->name);
        if (!t || t->bytes != weight_count(w) * sizeof(float)) {
            test_fail(__FILE__, __LINE__, "%s: %s is missing or of another size", name, w->name);
            return false;
        }
        memcpy(w->data, t->data, t->bytes);
    }
    CHECK_MSG(weights.n == g->t.model.params.n, "%s: %d tensors, declared %d", name, weights.n, g->t.model.params.n);
    safe_close(&weights);
    if (safe_open(&g->expected, test_text("tests/golden/%s/expected.safetensors", name), &err)) goto failed;
    char *text = test_read_file(test_text("tests/golden/%s/tokens.json", name), &n);
    g->json = cJSON_Parse(text);
    free(text);
    read_batch(g);
    return true;
failed:
    test_fail(__FILE__, __LINE__, "%s: %s", name, err.msg);
    return false;
}

static void golden_close(Golden *g) {
    test_model_free(&g->t);
    safe_close(&g->expected);
    cJSON_Delete(g->json);
    free(g->inputs);
    free(g->targets);
    free(g->weights);
}

static NoiseKey golden_noise(const Golden *g, uint32_t stream, int sequence) {
    bool per_sequence = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(g->json, "noise_per_sequence"));
    return (NoiseKey){.seed = (uint64_t)number(g, "noise_seed"),
                      .stream = stream,
                      .sequence = per_sequence ? (uint32_t)sequence : 0,
                      .scale = (float)number(g, "noise_scale")};
}

/* Largest |a - b| / (1 + |b|). */
static double distance(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]) / (1 + fabs((double)b[i]));
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

static void check_close(const Golden *g, const char *what, const float *got, const float *want, size_t n,
                        double limit) {
    if (!want) return;
    double d = distance(got, want, n);
    CHECK_MSG(d <= limit, "%s: %s differs by %.2e, limit %.0e", g->name, what, d, limit);
}

/* Loss and gradients of the batch, noise of the given stream; logits too when wanted. */
static double golden_step(Golden *g, uint32_t stream, float *logits) {
    Tape tape;
    tape_init(&tape, true);
    for (int s = 0; s < g->batch.n_segments; s++) g->segments[s].noise = golden_noise(g, stream, s);
    memset(g->t.grad, 0, g->t.count * sizeof(float));
    Mat *out = model_forward(&g->t.model, &tape, &g->batch, NULL);
    if (logits) memcpy(logits, out->x, (size_t)out->n * (size_t)out->d * sizeof(float));
    Mat *loss = model_loss(&tape, out, g->targets, g->weights, (float)number(g, "alpha"), NULL);
    tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

static size_t logits_count(const Golden *g) {
    const Config *c = &g->t.model.cfg;
    return (size_t)(config_pools(c) ? g->batch.n_segments : g->batch.n) * (size_t)config_outputs(c);
}

static void check_gradients(Golden *g) {
    size_t n = logits_count(g);
    float *logits = xmalloc(n * sizeof(float));
    float loss = (float)golden_step(g, (uint32_t)number(g, "noise_stream"), logits);
    check_close(g, "logits", logits, expected(g, "", "logits", n), n, 2e-5);
    check_close(g, "loss", &loss, expected(g, "", "loss", 1), 1, 1e-5);
    for (int i = 0; i < g->t.model.params.n; i++) {
        const Weight *w = g->t.model.params.params[i].weight;
        check_close(g, w->name, w->grad, expected(g, "grad.", w->name, weight_count(w)), weight_count(w), 1e-5);
    }
    free(logits);
}

/* All sequences at once, without a tape or a cache. */
static void check_evaluation(Golden *g) {
    Tape tape;
    size_t n = logits_count(g);
    tape_init(&tape, false);
    for (int s = 0; s < g->batch.n_segments; s++) g->segments[s].noise = golden_noise(g, 0, 0);
    const Mat *out = model_forward(&g->t.model, &tape, &g->batch, NULL);
    check_close(g, "evaluated logits", out->x, expected(g, "", "logits_stream0", n), n, 2e-5);
    tape_free(&tape);
}

/* The serving path on the same sequences, which are of one length. */
static void check_serving(Golden *g) {
    int vocab = g->t.model.cfg.vocab_size, length = g->segments->n;
    size_t n = (size_t)length * (size_t)vocab, all = logits_count(g);
    const float *stream0 = expected(g, "", "logits_stream0", all), *scale0 = expected(g, "", "logits_scale0", all);
    for (int s = 0; s < g->batch.n_segments && stream0 && scale0; s++) {
        NoiseKey noise = golden_noise(g, 0, 0);
        noise.sequence = 0;
        float *got = test_serve(&g->t.model, g->inputs + s * length, length, noise, (int[]){3}, 1);
        check_close(g, "logits_stream0", got, stream0 + (size_t)s * n, n, 2e-5);
        free(got);
        noise.scale = 0;
        got = test_serve(&g->t.model, g->inputs + s * length, length, noise, (int[]){3}, 1);
        check_close(g, "logits_scale0", got, scale0 + (size_t)s * n, n, 2e-5);
        free(got);
    }
}

/* Ten AdamW steps: losses, then the weights. Where the true gradient is zero Adam turns rounding into whole steps, so
 * single weights may stray; the mean may not. */
static void check_training(Golden *g) {
    ParamSet *ps = &g->t.model.params;
    Optimizer o;
    optimizer_init(&o, ps, false, 1); /* the weights move into its own buffers */
    memcpy(o.w, g->t.data, g->t.count * sizeof(float));
    params_bind_flat(ps, o.w, g->t.grad);
    Recipe settings = {.betas = {0.9, 0.95}, .weight_decay = number(g, "weight_decay"), .clip = number(g, "clip")};
    int steps = (int)number(g, "steps"), warmup = (int)number(g, "warmup");
    const float *losses = expected(g, "", "losses", (size_t)steps);
    for (int s = 0; s < steps && losses; s++) {
        float loss = (float)golden_step(g, g->own_targets ? 0 : 1 + (uint32_t)s, NULL);
        check_close(g, "loss of a step", &loss, &losses[s], 1, 2e-4);
        double lr = number(g, "lr") * (s < warmup ? (s + 1.0) / warmup : 1);
        memcpy(o.sum.floats, g->t.grad, o.n * sizeof(float));
        CHECK(gradient_sum_round(&o.slices, 0, o.slices.n, o.sum) == SIZE_MAX);
        optimizer_step(&o, &settings, lr, s + 1, 1);
    }
    for (int i = 0; i < ps->n; i++) {
        const Weight *w = ps->params[i].weight;
        size_t n = weight_count(w);
        const float *after = expected(g, "after.", w->name, n), *grad = expected(g, "grad.", w->name, n);
        double sum = 0;
        size_t live = 0;
        for (size_t k = 0; k < n && after && grad; k++) {
            if (fabsf(grad[k]) < 1e-7f) continue;
            sum += fabs((double)weight_f32(w)[k] - after[k]);
            live++;
        }
        CHECK_MSG(!live || sum / (double)live < 2e-5, "%s: %s after %d steps is off by %.2e on average", g->name,
                  w->name, steps, sum / (double)live);
    }
    optimizer_free(&o);
}

TEST(golden_oracle) {
    DIR *dir = opendir("tests/golden");
    REQUIRE(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        Golden g;
        if (golden_open(&g, e->d_name)) {
            check_gradients(&g);
            if (g.own_targets)
                check_evaluation(&g);
            else
                check_serving(&g);
            if (!SANITIZED) check_training(&g); /* about numbers, ten times what check_gradients has done */
        }
        golden_close(&g);
        n++;
    }
    closedir(dir);
    CHECK_MSG(n >= 112, "%d golden cases", n);
}
