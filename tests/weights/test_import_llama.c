/* Hugging Face's llama folders in every dtype, tied and untied, in one file and in two, against the network written
 * down once more in plain double loops. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 40, WIDTH = 24, LAYERS = 2, HEADS = 4, KV_HEADS = 2, DIM = 6, HIDDEN = 20, LENGTH = 13, TENSORS = 32 };

#define THETA 500.0
#define EPS 1e-5

/* Values that F32, BF16 and F16 all hold exactly: whatever the file's dtype, the answer is the same. */
typedef struct Tensor {
    char name[96];
    int rows, columns; /* columns 0: a vector */
    double *x;
} Tensor;

typedef struct Llama {
    Tensor tensors[TENSORS];
    int n;
    bool tied;
} Llama;

static void declare(Llama *m, const char *name, int rows, int columns) {
    Tensor *t = &m->tensors[m->n++];
    int count = rows * MAX(columns, 1);
    Draws d = draws_open(17, DRAW_TEST, (uint32_t)m->n);
    *t = (Tensor){.rows = rows, .columns = columns, .x = xmalloc((size_t)count * sizeof *t->x)};
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int i = 0; i < count; i++) t->x[i] = (columns ? 0 : 1) + ((double)draw_below(&d, 129) - 64) / 128;
}

static void declare_all(Llama *m, bool tied) {
    static const struct {
        const char *name;
        int rows, columns;
    } layer[] = {{"input_layernorm", WIDTH, 0},
                 {"self_attn.q_proj", HEADS * DIM, WIDTH},
                 {"self_attn.k_proj", KV_HEADS * DIM, WIDTH},
                 {"self_attn.v_proj", KV_HEADS * DIM, WIDTH},
                 {"self_attn.o_proj", WIDTH, HEADS * DIM},
                 {"post_attention_layernorm", WIDTH, 0},
                 {"mlp.gate_proj", HIDDEN, WIDTH},
                 {"mlp.up_proj", HIDDEN, WIDTH},
                 {"mlp.down_proj", WIDTH, HIDDEN}};
    *m = (Llama){.tied = tied};
    declare(m, "model.embed_tokens.weight", VOCAB, WIDTH);
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < COUNTOF(layer); i++) {
            declare(m, test_text("model.layers.%d.%s.weight", l, layer[i].name), layer[i].rows, layer[i].columns);
        }
    declare(m, "model.norm.weight", WIDTH, 0);
    if (!tied) declare(m, "lm_head.weight", VOCAB, WIDTH);
}

static const Tensor *get(const Llama *m, int layer, const char *name) {
    char full[128];
    if (layer < 0)
        snprintf(full, sizeof full, "%s.weight", name);
    else
        snprintf(full, sizeof full, "model.layers.%d.%s.weight", layer, name);
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->tensors[i].name, full)) return &m->tensors[i];
    bug_abort(__FILE__, __LINE__, full);
}

/* ---- the reference ---- */

static void rms(const Tensor *gain, const double *x, double *y) {
    double sum = 0;
    for (int i = 0; i < WIDTH; i++) sum += x[i] * x[i];
    for (int i = 0; i < WIDTH; i++) y[i] = gain->x[i] * x[i] / sqrt(sum / WIDTH + EPS);
}

static void multiply(const Tensor *w, const double *x, double *y) {
    for (int o = 0; o < w->rows; o++) {
        y[o] = 0;
        for (int i = 0; i < w->columns; i++) y[o] += w->x[o * w->columns + i] * x[i];
    }
}

static void rotate(double *x, int heads, int position) {
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < DIM / 2; i++) {
            double angle = position * pow(THETA, -2.0 * i / DIM), *a = x + h * DIM + i, *b = a + DIM / 2, a0 = *a;
            *a = a0 * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + a0 * sin(angle);
        }
}

/* Row t of the attention, keys and values of rows 0..t being known. */
static void attend(const double *q, double k[][KV_HEADS * DIM], double v[][KV_HEADS * DIM], int t, double *y) {
    for (int h = 0; h < HEADS; h++) {
        int g = h / (HEADS / KV_HEADS) * DIM;
        double p[LENGTH], sum = 0;
        for (int j = 0; j <= t; j++) {
            double dot = 0;
            for (int i = 0; i < DIM; i++) dot += q[h * DIM + i] * k[j][g + i];
            sum += p[j] = exp(dot / sqrt(DIM));
        }
        for (int i = 0; i < DIM; i++) {
            y[h * DIM + i] = 0;
            for (int j = 0; j <= t; j++) y[h * DIM + i] += p[j] / sum * v[j][g + i];
        }
    }
}

static void feed_forward(const Llama *m, int layer, double *x) {
    double normed[WIDTH], gate[HIDDEN], up[HIDDEN], down[WIDTH];
    rms(get(m, layer, "post_attention_layernorm"), x, normed);
    multiply(get(m, layer, "mlp.gate_proj"), normed, gate);
    multiply(get(m, layer, "mlp.up_proj"), normed, up);
    for (int i = 0; i < HIDDEN; i++) up[i] *= gate[i] / (1 + exp(-gate[i]));
    multiply(get(m, layer, "mlp.down_proj"), up, down);
    for (int i = 0; i < WIDTH; i++) x[i] += down[i];
}

static void reference(const Llama *m, const int *tokens, double logits[LENGTH][VOCAB]) {
    static double k[LAYERS][LENGTH][KV_HEADS * DIM], v[LAYERS][LENGTH][KV_HEADS * DIM];
    for (int t = 0; t < LENGTH; t++) {
        double x[WIDTH], y[WIDTH], q[HEADS * DIM], mixed[HEADS * DIM];
        memcpy(x, get(m, -1, "model.embed_tokens")->x + tokens[t] * WIDTH, sizeof x);
        for (int l = 0; l < LAYERS; l++) {
            rms(get(m, l, "input_layernorm"), x, y);
            multiply(get(m, l, "self_attn.q_proj"), y, q);
            multiply(get(m, l, "self_attn.k_proj"), y, k[l][t]);
            multiply(get(m, l, "self_attn.v_proj"), y, v[l][t]);
            rotate(q, HEADS, t);
            rotate(k[l][t], KV_HEADS, t);
            attend(q, k[l], v[l], t, mixed);
            multiply(get(m, l, "self_attn.o_proj"), mixed, y);
            for (int i = 0; i < WIDTH; i++) x[i] += y[i];
            feed_forward(m, l, x);
        }
        rms(get(m, -1, "model.norm"), x, y);
        multiply(get(m, -1, m->tied ? "model.embed_tokens" : "lm_head"), y, logits[t]);
    }
}

/* ---- the folder ---- */

/* Of a value with at most 10 significant bits in F16's normal range, or 0. */
static uint16_t exact_f16(double x) {
    int exponent;
    double fraction = frexp(fabs(x), &exponent); /* in [0.5, 1) */
    if (fraction == 0) return 0;
    return (uint16_t)((x < 0) << 15 | (exponent + 14) << 10 | (int)((fraction * 2 - 1) * 1024));
}

static void *encode(const Tensor *t, Dtype dtype) {
    size_t n = (size_t)(t->rows * MAX(t->columns, 1));
    float *values = xmalloc(n * sizeof *values);
    uint16_t *halves = (uint16_t *)values;
    for (size_t i = 0; i < n; i++) {
        float f = (float)t->x[i];
        if (dtype == DTYPE_F32) values[i] = f;
        if (dtype == DTYPE_BF16) halves[i] = f32_to_bf16(f);
        if (dtype == DTYPE_F16) halves[i] = exact_f16(t->x[i]);
    }
    return values;
}

static void save_weights(const Llama *m, const char *dir, Dtype dtype, bool sharded) {
    SafeOut out[TENSORS];
    char index[4096] = "{\"weight_map\":{";
    int half = sharded ? m->n / 2 : m->n; /* the second layer's gate_proj and up_proj end up in one file or in two */
    for (int i = 0; i < m->n; i++) {
        const Tensor *t = &m->tensors[i];
        out[i] = (SafeOut){.name = t->name,
                           .dtype = dtype,
                           .source = dtype,
                           .n_dims = t->columns ? 2 : 1,
                           .dims = {t->rows, t->columns},
                           .data = encode(t, dtype)};
        size_t used = strlen(index);
        snprintf(index + used, sizeof index - used, "%s\"%s\":\"%c.safetensors\"", i ? "," : "", t->name,
                 i < half ? 'a' : 'b');
    }
    BUG_ON(safe_save(test_text("%s/%s", dir, sharded ? "a.safetensors" : "model.safetensors"), out, half, 0, NULL));
    BUG_ON(sharded && safe_save(test_text("%s/b.safetensors", dir), out + half, m->n - half, 0, NULL));
    strcat(index, "}}");
    if (sharded) test_write_text(dir, "model.safetensors.index.json", index);
    for (int i = 0; i < m->n; i++) free((void *)out[i].data);
}

static const char *llama_folder(const Llama *m, Dtype dtype, bool sharded) {
    const char *dir = test_dir();
    test_write_text(
        dir, "config.json",
        test_text(
            "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":%d,"
            "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"intermediate_size\":%d,"
            "\"max_position_embeddings\":64,\"rms_norm_eps\":%g,\"rope_theta\":%g,\"hidden_act\":\"silu\","
            "\"tie_word_embeddings\":%s,\"torch_dtype\":\"float32\"}",
            VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, HIDDEN, EPS, THETA, m->tied ? "true" : "false"));
    save_weights(m, dir, dtype, sharded);
    return dir;
}

/* ---- the cases ---- */

static float *serve(const char *dir, const int *tokens) {
    Checkpoint c;
    Err err;
    int rc = checkpoint_open(&c, dir, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    if (rc) return NULL;
    float *logits = test_serve(&c.model, tokens, LENGTH, (NoiseKey){0}, (int[]){5, 1}, 2);
    checkpoint_close(&c);
    return logits;
}

/* The largest |difference| of the served logits, of the folder and of what import makes of it. */
static void check_folder(const Llama *m, const int *tokens, double want[LENGTH][VOCAB], Dtype dtype, bool sharded) {
    const char *parent = test_dir();
    const char *dir = llama_folder(m, dtype, sharded);
    char what[64], to[256];
    double worst = 0, limit = dtype == DTYPE_BF16 ? 0.06 : 1e-5; /* the logits reach 4; bf16 rounds activations */
    Err err;
    snprintf(what, sizeof what, "%s, %s, %s", dtype_name(dtype), m->tied ? "tied" : "untied",
             sharded ? "two files" : "one file");
    float *got = serve(dir, tokens);
    for (int i = 0; got && i < LENGTH * VOCAB; i++) {
        double d = fabs(got[i] - want[i / VOCAB][i % VOCAB]);
        if (!(d <= worst)) worst = d;
    }
    CHECK_MSG(worst < limit, "%s: logits differ by %.2e, limit %.0e", what, worst, limit);
    snprintf(to, sizeof to, "%s/ours", parent);
    int rc = test_convert(dir, to, NULL, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    float *again = rc ? NULL : serve(to, tokens);
    CHECK_MSG(got && again && !memcmp(got, again, LENGTH * VOCAB * sizeof *got), "%s: import changed the logits", what);
    free(got);
    free(again);
}

TEST(import_llama_logits) {
    static const Dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    static double want[LENGTH][VOCAB];
    int tokens[LENGTH];
    for (int i = 0; i < LENGTH; i++) tokens[i] = (7 * i * i + 3) % VOCAB;
    for (int tied = 0; tied < 2; tied++) {
        Llama m;
        declare_all(&m, tied);
        reference(&m, tokens, want);
        for (size_t d = 0; d < COUNTOF(dtypes); d++)
            for (int sharded = 0; sharded < 2; sharded++) check_folder(&m, tokens, want, dtypes[d], sharded);
        for (int i = 0; i < m.n; i++) free(m.tensors[i].x);
    }
}
