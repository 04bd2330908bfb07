#include "op_attention.h"

#include "kernels/kernels.h"
#include "team.h"

#include <cblas.h>
#include <string.h>

/* Rows of scores computed together: causal blocks skip most of the upper triangle at BLAS speed. */
enum { TILE = 64 };

typedef struct TrainContext {
    Forward f; /* a copy: the layer number moves on */
    Mat *q, *k, *v, *y;
    AttentionSpec spec;
    int group, longest;
    size_t scratch_floats;
    float *scratch;        /* [threads, scratch_floats]: scores, dscores, one row of Gaussians, of components */
    double *noise_sums;    /* [n_segments, H, 3 M] */
    float *d_log_variance; /* [n, H] */
} TrainContext;

/* Views of one head of one segment. */
typedef struct HeadView {
    const Segment *seg;
    int head, ldq, ldk, ldv, ldy;
    size_t q, k, v, y; /* offsets of row 0 */
} HeadView;

static HeadView head_view(const TrainContext *c, int segment, int head) {
    const Segment *seg = &c->f.batch->segments[segment];
    size_t row = (size_t)seg->row0;
    int kv = head / c->group, k_dim = c->spec.heads.k_dim, v_dim = c->spec.heads.v_dim;
    return (HeadView){.seg = seg,
                      .head = head,
                      .ldq = c->q->d,
                      .ldk = c->k->d,
                      .ldv = c->v->d,
                      .ldy = c->y->d,
                      .q = row * (size_t)c->q->d + (size_t)(head * k_dim),
                      .k = row * (size_t)c->k->d + (size_t)(kv * k_dim),
                      .v = row * (size_t)c->v->d + (size_t)(kv * v_dim),
                      .y = row * (size_t)c->y->d + (size_t)(head * v_dim)};
}

/* p[r, 0..keys) = softmax of row i0 + r, zero behind the diagonal; keys = i0 + rows. */
static void tile_probabilities(const TrainContext *c, const HeadView *h, int i0, int rows, float *p, float *eps,
                               uint16_t *component) {
    int keys = i0 + rows, k_dim = c->spec.heads.k_dim;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, k_dim, c->spec.scale,
                c->q->x + h->q + (size_t)i0 * (size_t)h->ldq, h->ldq, c->k->x + h->k, h->ldk, 0, p, keys);
    for (int r = 0; r < rows; r++) {
        float *row = p + (size_t)r * (size_t)keys;
        int i = i0 + r;
        NoiseRow noise;
        if (attention_noise_row(&c->f, &c->spec, h->seg, h->head, h->seg->row0 + i, i, &noise)) {
            noise_row_draw(&noise, eps, component);
            noise_row_add(&noise, eps, component, row);
        }
        float inverse = 1 / kernels->exp_sum_row(i + 1, row, row, kernels->max_row(i + 1, row));
        for (int j = 0; j <= i; j++) row[j] *= inverse;
        memset(row + i + 1, 0, (size_t)(keys - i - 1) * sizeof(float));
    }
}

static void head_forward(const TrainContext *c, int segment, int head, float *scratch) {
    HeadView h = head_view(c, segment, head);
    float *p = scratch, *eps = scratch + 2 * TILE * c->longest;
    uint16_t *component = (uint16_t *)(void *)(eps + c->longest);
    int v_dim = c->spec.heads.v_dim;
    for (int i0 = 0; i0 < h.seg->n; i0 += TILE) {
        int rows = MIN(TILE, h.seg->n - i0), keys = i0 + rows;
        tile_probabilities(c, &h, i0, rows, p, eps, component);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, v_dim, keys, 1, p, keys, c->v->x + h.v, h.ldv, 0,
                    c->y->x + h.y + (size_t)i0 * (size_t)h.ldy, h.ldy);
    }
}

/* dS = P (dP - dy . y), in place of dP; then the noise's own gradients from dS. */
static void tile_score_gradient(const TrainContext *c, const HeadView *h, int i0, int rows, const float *p, float *ds,
                                float *eps, uint16_t *component, double *sums) {
    int keys = i0 + rows, v_dim = c->spec.heads.v_dim;
    for (int r = 0; r < rows; r++) {
        int i = i0 + r;
        const float *y = c->y->x + h->y + (size_t)i * (size_t)h->ldy;
        const float *dy = c->y->dx + h->y + (size_t)i * (size_t)h->ldy;
        const float *pr = p + (size_t)r * (size_t)keys;
        float *row = ds + (size_t)r * (size_t)keys, dot = 0;
        for (int d = 0; d < v_dim; d++) dot += dy[d] * y[d];
        for (int j = 0; j <= i; j++) row[j] = pr[j] * (row[j] - dot);
        memset(row + i + 1, 0, (size_t)(keys - i - 1) * sizeof(float));
        NoiseRow noise;
        int batch_row = h->seg->row0 + i;
        if (!attention_noise_row(&c->f, &c->spec, h->seg, h->head, batch_row, i, &noise)) continue;
        noise_row_draw(&noise, eps, component);
        float *dlv =
            c->d_log_variance ? c->d_log_variance + (size_t)batch_row * (size_t)c->spec.heads.heads + h->head : NULL;
        noise_row_backward(&noise, row, eps, component, sums, dlv);
    }
}

/* With S = scale Q K^T + N, P = softmax(S), Y = P V:
 * dV += P^T dY, dP = dY V^T, dQ += scale dS K, dK += scale dS^T Q. Symmetric attention has dK = dQ: both roles add. */
static void head_backward(const TrainContext *c, int segment, int head, float *scratch) {
    HeadView h = head_view(c, segment, head);
    float *p = scratch, *ds = scratch + TILE * c->longest, *eps = scratch + 2 * TILE * c->longest;
    uint16_t *component = (uint16_t *)(void *)(eps + c->longest);
    int k_dim = c->spec.heads.k_dim, v_dim = c->spec.heads.v_dim;
    int components = MAX(1, c->f.cfg->noise.components);
    double *sums = c->noise_sums + (size_t)(segment * c->spec.heads.heads + head) * (size_t)(3 * components);
    for (int i0 = 0; i0 < h.seg->n; i0 += TILE) {
        int rows = MIN(TILE, h.seg->n - i0), keys = i0 + rows;
        const float *dy = c->y->dx + h.y + (size_t)i0 * (size_t)h.ldy;
        size_t q = h.q + (size_t)i0 * (size_t)h.ldq;
        tile_probabilities(c, &h, i0, rows, p, eps, component);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, keys, v_dim, rows, 1, p, keys, dy, h.ldy, 1,
                    c->v->dx + h.v, h.ldv);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, v_dim, 1, dy, h.ldy, c->v->x + h.v, h.ldv, 0,
                    ds, keys);
        tile_score_gradient(c, &h, i0, rows, p, ds, eps, component, sums);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, k_dim, keys, c->spec.scale, ds, keys,
                    c->k->x + h.k, h.ldk, 1, c->q->dx + q, h.ldq);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, keys, k_dim, rows, c->spec.scale, ds, keys, c->q->x + q,
                    h.ldq, 1, c->k->dx + h.k, h.ldk);
    }
}

/* Adds the per-head sums in segment and head order, whatever thread made them. */
static void collect_noise_gradients(const TrainContext *c) {
    const Config *cfg = c->f.cfg;
    const Noise *z = c->spec.noise;
    int heads = c->spec.heads.heads, m = MAX(1, cfg->noise.components), n = config_noise_heads(cfg);
    if (c->spec.condition) {
        Mat *condition = c->spec.condition;
        for (int i = 0; i < condition->n; i++)
            for (int h = 0; h < heads; h++)
                condition->dx[(size_t)i * (size_t)condition->d + (size_t)(n + (n > 1 ? h : 0))] +=
                    c->d_log_variance[(size_t)i * (size_t)heads + (size_t)h];
        return;
    }
    if (!z->mu.grad) return;
    for (int s = 0; s < c->f.batch->n_segments; s++)
        for (int h = 0; h < heads; h++) {
            const double *sums = c->noise_sums + (size_t)(s * heads + h) * (size_t)(3 * m);
            int first = (cfg->noise.scope == NOISE_HEAD ? h : 0) * m;
            for (int k = 0; k < m; k++) {
                z->mu.grad[first + k] += (float)sums[k];
                z->sigma.grad[first + k] += (float)sums[m + k];
                if (z->weight.grad) z->weight.grad[first + k] += (float)sums[2 * m + k];
            }
        }
}

static void train_backward(void *context) {
    const TrainContext *c = context;
    int kv_heads = c->spec.heads.kv_heads;
    size_t sums =
        (size_t)(c->f.batch->n_segments * c->spec.heads.heads) * (size_t)(3 * MAX(1, c->f.cfg->noise.components));
    memset(c->noise_sums, 0, sums * sizeof(double));
    if (c->d_log_variance) memset(c->d_log_variance, 0, (size_t)c->q->n * (size_t)c->spec.heads.heads * sizeof(float));
        /* query heads of one kv head add into the same dk, dv: they stay with one thread, in order */
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int s = 0; s < c->f.batch->n_segments; s++)
        for (int g = 0; g < kv_heads; g++)
            for (int h = g * c->group; h < (g + 1) * c->group; h++)
                head_backward(c, s, h, c->scratch + (size_t)team_member() * c->scratch_floats);
    if (c->spec.noise) collect_noise_gradients(c);
}

void attention_train(Forward *f, Mat *q, Mat *k, Mat *v, Mat *y, const AttentionSpec *spec) {
    Tape *t = f->tape;
    TrainContext *c = tape_alloc(t, sizeof *c);
    *c = (TrainContext){
        .f = *f, .q = q, .k = k, .v = v, .y = y, .spec = *spec, .group = spec->heads.heads / spec->heads.kv_heads};
    int n_segments = f->batch->n_segments, heads = spec->heads.heads;
    for (int s = 0; s < n_segments; s++) {
        BUG_ON(f->batch->segments[s].pos0 != 0);
        c->longest = MAX(c->longest, f->batch->segments[s].n);
    }
    c->scratch_floats = (size_t)(2 * TILE + 2) * (size_t)c->longest;
    c->scratch = tape_alloc(t, (size_t)team_size() * c->scratch_floats * sizeof(float));
    c->noise_sums =
        tape_alloc(t, (size_t)(n_segments * heads) * (size_t)(3 * MAX(1, f->cfg->noise.components)) * sizeof(double));
    if (spec->condition) c->d_log_variance = tape_alloc(t, (size_t)q->n * (size_t)heads * sizeof(float));
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int s = 0; s < n_segments; s++)
        for (int h = 0; h < heads; h++) head_forward(c, s, h, c->scratch + (size_t)team_member() * c->scratch_floats);
    tape_push(t, train_backward, c);
}
