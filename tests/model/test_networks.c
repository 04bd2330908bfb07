/* The networks besides the transformer against torch.nn.LSTM and torch.nn.Transformer (tests/oracle/make_networks.py):
 * logits, all gradients, ten steps of plain gradient descent. */
#include "base/err.h"
#include "base/json/json.h"
#include "model/network.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/checkpoint.h"
#include "weights/config_json.h"
#include "weights/presets.h"
#include "weights/presets_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 32, TEXTS_MAX = 4 };

typedef struct Golden {
    const char *name;
    TestModel t;
    SafeFile expected;
    int tokens[ROWS_MAX], targets[ROWS_MAX], n_targets, steps;
    float rate;
    Segment segments[TEXTS_MAX];
    Batch batch;
} Golden;

static bool take_weights(Golden *g, const char *path) {
    SafeFile f;
    Err err;
    ParamSet *ps = &g->t.model.params;
    if (safe_open(&f, path, &err)) return test_fail(__FILE__, __LINE__, "%s", err.msg), false;
    CHECK_MSG(f.n == ps->n, "%s: %d tensors, declared %d", path, f.n, ps->n);
    for (int i = 0; i < ps->n; i++) {
        Weight *w = ps->params[i].weight;
        const SafeTensor *t = safe_find(&f, w->name);
        CHECK_MSG(t && t->n_dims == w->n_dims && !memcmp(t->dims, w->dims, (size_t)w->n_dims * sizeof *w->dims),
                  "%s: %s is missing or of another shape", path, w->name);
        if (t && t->bytes == weight_count(w) * sizeof(float)) memcpy(w->data, t->data, t->bytes);
    }
    safe_close(&f);
    return true;
}

static void take_run(Golden *g, const char *path) {
    char *text = test_read_file(path, NULL);
    cJSON *root = cJSON_Parse(text);
    const cJSON *sentence, *token;
    BUG_ON(!root);
    g->batch = (Batch){.tokens = g->tokens, .segments = g->segments};
    cJSON_ArrayForEach(sentence, cJSON_GetObjectItem(root, "tokens")) {
        Segment *s = &g->segments[g->batch.n_segments++];
        *s = (Segment){.row0 = g->batch.n, .n = cJSON_GetArraySize(sentence)};
        cJSON_ArrayForEach(token, sentence) g->tokens[g->batch.n++] = token->valueint;
    }
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(root, "targets")) g->targets[g->n_targets++] = token->valueint;
    g->rate = (float)cJSON_GetObjectItem(root, "lr")->valuedouble;
    g->steps = cJSON_GetObjectItem(root, "steps")->valueint;
    cJSON_Delete(root);
    free(text);
}

static bool golden_open(Golden *g, const char *name) {
    char path[4][128];
    static const char *const files[] = {"config.json", "model.safetensors", "run.json", "expected.safetensors"};
    Err err;
    Config c;
    *g = (Golden){.name = name};
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "tests/golden_networks/%s/%s", name, files[i]);
    if (config_json_load(&c, NULL, path[0], &err) || safe_open(&g->expected, path[3], &err)) {
        test_fail(__FILE__, __LINE__, "%s: %s", name, err.msg);
        return false;
    }
    take_run(g, path[2]);
    return test_model_init(&g->t, &c, 1) && take_weights(g, path[1]);
}

static void check_close(const Golden *g, const char *prefix, const char *name, const float *got, size_t n,
                        double most) {
    double worst = 0;
    const char *key = test_text("%s%s", prefix, name);
    const SafeTensor *t = safe_find(&g->expected, key);
    CHECK_MSG(t && t->bytes == n * sizeof(float), "%s: no %s of %zu floats", g->name, key, n);
    if (!t || t->bytes != n * sizeof(float)) return;
    for (size_t i = 0; i < n; i++) {
        double want = ((const float *)t->data)[i], off = fabs((double)got[i] - want) / (1 + fabs(want));
        if (!(off <= worst)) worst = off;
    }
    CHECK_MSG(worst <= most, "%s: %s is off by %.2e", g->name, key, worst);
}

static float step(Golden *g, bool check) {
    Tape tape;
    memset(g->t.grad, 0, g->t.count * sizeof(float));
    tape_init(&tape, true);
    Mat *logits = model_forward(&g->t.model, &tape, &g->batch, NULL);
    if (check) check_close(g, "", "logits", logits->x, (size_t)(logits->n * logits->d), 3e-6);
    BUG_ON(logits->n != g->n_targets);
    Mat *loss = model_loss(&tape, logits, g->targets, NULL, 0, NULL);
    float value = loss->x[0];
    tape_backward(&tape, loss);
    tape_free(&tape);
    return value;
}

static void check_weights(const Golden *g, const char *prefix, bool gradient) {
    for (int i = 0; i < g->t.model.params.n; i++) {
        const Weight *w = g->t.model.params.params[i].weight;
        if (g->t.model.params.params[i].frozen) continue;
        check_close(g, prefix, w->name, gradient ? w->grad : weight_f32(w), weight_count(w), 5e-6);
    }
}

static void check_golden(const char *name) {
    Golden g;
    float losses[64];
    if (golden_open(&g, name)) {
        for (int s = 0; s < g.steps; s++) {
            losses[s] = step(&g, s == 0);
            if (s == 0) check_weights(&g, "grad.", true);
            for (size_t i = 0; i < g.t.count; i++) g.t.data[i] -= g.rate * g.t.grad[i];
        }
        check_close(&g, "", "losses", losses, (size_t)g.steps, 3e-6);
        check_weights(&g, "after.", false);
    }
    test_model_free(&g.t);
    safe_close(&g.expected);
}

TEST(networks_golden) {
    check_golden("bilstm");
    check_golden("encoder_decoder");
}

/* Word vectors are neither trained nor in a flat buffer; all other parameters are in one bin of weight noise each. */
TEST(networks_parameters) {
    static const struct {
        const char *name;
        int bins;
    } cases[] = {{"bilstm", 2 + 1}, {"encoder_decoder", 1 + 2 + 1 + 3}};
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        Golden g;
        bool bins[16] = {false};
        REQUIRE(golden_open(&g, cases[k].name));
        const ParamSet *ps = &g.t.model.params;
        CHECK(params_count(ps) == params_trained(ps) + 11 * 5);
        for (int i = 0; i < ps->n; i++) {
            const Param *p = &ps->params[i];
            CHECK(p->frozen == !strcmp(p->name, "model.word_vectors.weight") && p->bin < cases[k].bins);
            if (!p->frozen) bins[p->bin] = true;
        }
        for (int b = 0; b < cases[k].bins; b++) CHECK_MSG(bins[b], "%s: bin %d is empty", g.name, b);
        test_model_free(&g.t);
        safe_close(&g.expected);
    }
}

/* Another network's keys, and what a network cannot be. */
TEST(networks_bad_configs) {
    static const struct {
        const char *name, *from, *to, *why;
    } cases[] = {
        {"bilstm", "\"bilstm\"", "\"gru\"", "network is \"gru\", must be transformer, bilstm or encoder-decoder"},
        {"bilstm", "\"token-c", "\"text-c", "network is bilstm, but task is text-classification"},
        {"bilstm", "\"hidden_size\"", "\"causal\": true, \"hidden_size\"", "causal"},
        {"bilstm", "\"hidden_size\": 4", "\"hidden_size\": 9000", "hidden_size is 9000, must be 1 to 8192"},
        {"bilstm", "\"size\": 5", "\"size\": 5000", "input.size is 5000, must be 1 to 4096"},
        {"bilstm", "\"hidden_size\"", "\"dropout\": 0.1, \"hidden_size\"", "network is bilstm, but dropout is 0.1"},
        {"bilstm", "\"bilstm\"", "\"transformer\"", "num_attention_heads"},
        {"encoder_decoder", "\"encoder-decoder\"", "\"transformer\"", "num_decoder_layers"},
        {"encoder_decoder", "\"causal\": false", "\"causal\": true", "causal is true: its encoder sees whole texts"},
        {"encoder_decoder", "\"mean\"", "\"last\"", "network is encoder-decoder, but pool is last, not mean"},
        {"encoder_decoder", "\"sinusoidal\"", "\"rope\"", "position is rope, must be sinusoidal or none"},
        {"encoder_decoder", "\"post\"", "\"pre\"", "block is not"},
        {"encoder_decoder", "\"num_decoder_layers\": 1", "\"num_decoder_layers\": 2000", "must be 1 to 1024"},
    };
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        char changed[4096];
        Config c;
        Err err = {""};
        char *text = test_read_file(test_text("tests/golden_networks/%s/config.json", cases[k].name), NULL),
             *at = strstr(text, cases[k].from);
        REQUIRE(at);
        int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[k].to,
                         at + strlen(cases[k].from));
        CHECK(config_json_parse(&c, NULL, changed, (size_t)n, &err) == -1);
        CHECK_MSG(strstr(err.msg, cases[k].why), "%s -> %s: %s", cases[k].from, cases[k].to, err.msg);
        free(text);
    }
}

/* Tables 1 and 2 of the noise-injection paper: sizes by counting what they have. */
TEST(networks_presets) {
    for (int i = 0; preset_words_name(i); i++) {
        Config c;
        Model m;
        Err err = {""};
        const char *name = preset_words_name(i);
        CHECK_MSG(preset_config(&c, name, &err) == 0 && model_init(&m, &c, &err) == 0, "%s: %s", name, err.msg);
        size_t d = (size_t)c.hidden_size, width = (size_t)c.mlp.width, L = (size_t)c.n_layers, count;
        if (c.decoder_layers) { /* attention 4 (d d + d), mlp 2 d width + width + d, a norm 2 d */
            size_t attention = 4 * (d * d + d), mlp = 2 * d * width + width + d;
            count = L * (attention + mlp + 4 * d) + L * (2 * attention + mlp + 6 * d) + 4 * d + 26 * d;
            count += (d / 2) * (d + 1) + (d / 4) * (d / 2 + 1) + 2 * (d / 4 + 1);
            CHECK_MSG(c.n_heads * 5 == c.hidden_size && c.decoder_layers == c.n_layers, "%s", name);
        } else { /* 8 h (in + 1 + h) a layer */
            count = 8 * d * (26 + d) + (L - 1) * 8 * d * (2 * d + 1 + d) + 2 * (2 * d + 1);
        }
        CHECK_MSG(params_trained(&m.params) == count, "%s: %zu parameters, not %zu", name, params_trained(&m.params),
                  count);
        model_free(&m);
    }
}
