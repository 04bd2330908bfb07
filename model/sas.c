#include "model/sas.h"

#include "base/arena.h"
#include "base/err.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <math.h>
#include <string.h>

static Init uniform_by_fan_in(int fan_in) {
    float bound = (float)(1 / sqrt(fan_in));
    return (Init){.kind = INIT_UNIFORM, .a = -bound, .b = bound};
}

static void declare_pair(ParamSet *ps, const char *name, Weight *w, Weight *b, int n_dims, const int *dims,
                         int fan_in) {
    size_t at = params_enter(ps, "%s.", name);
    param_declare(ps, w, "weight", n_dims, dims, uniform_by_fan_in(fan_in))->matrix = false;
    param_declare(ps, b, "bias", 1, dims, uniform_by_fan_in(fan_in));
    params_leave(ps, at);
}

/* The paper's FeatureOnly has no kernel, its HeadOnly the features of its host. */
static void stack_declare(SasStack *s, ParamSet *ps, const Config *c, const char *name, int dim, int dim_x) {
    int heads = config_base_heads(c).heads, heads_x = c->sas.heads, k = c->sas.kernel;
    *s = (SasStack){.has_heads = k > 0, .has_features = dim_x != dim};
    size_t at = params_enter(ps, "%s.", name);
    if (s->has_heads) {
        declare_pair(ps, "head_in", &s->head_in_w, &s->head_in_b, 3, (int[]){heads_x, heads, k}, heads * k);
        declare_pair(ps, "head_out", &s->head_out_w, &s->head_out_b, 3, (int[]){heads_x, heads_x, k}, heads_x * k);
    }
    if (s->has_features) {
        declare_pair(ps, "feature_in", &s->feature_in_w, &s->feature_in_b, 2, (int[]){dim_x, dim}, dim);
        declare_pair(ps, "feature_out", &s->feature_out_w, &s->feature_out_b, 2, (int[]){dim_x, dim_x}, dim_x);
    }
    params_leave(ps, at);
}

void sas_declare(Sas *s, ParamSet *ps, const Config *c) {
    if (!c->sas.heads) return;
    HeadShape base = config_base_heads(c);
    size_t at = params_enter(ps, "sas.");
    stack_declare(&s->q, ps, c, "q", base.k_dim, c->sas.head_dim);
    stack_declare(&s->k, ps, c, "k", base.k_dim, c->sas.head_dim);
    stack_declare(&s->v, ps, c, "v", base.v_dim, base.v_dim);
    params_leave(ps, at);
}

/* The ReLU between the two layers of a step; the linear ablation leaves it out. */
static Mat *between(Forward *f, Mat *x) { return f->cfg->sas.relu ? op_activation(f->tape, x, ACT_RELU) : x; }

/* Features of an expanded row. */
static int stack_width(const Config *c, const SasStack *s, int width) {
    int base = config_base_heads(c).heads, heads = s->has_heads ? c->sas.heads : base;
    return heads * (s->has_features ? c->sas.head_dim : width / base);
}

static Mat *expand_rows(Forward *f, const SasStack *s, Mat *x) {
    Tape *t = f->tape;
    int heads = config_base_heads(f->cfg).heads, dim = x->d / heads;
    if (s->has_heads) {
        Mat *x1 = op_head_conv(t, x, &s->head_in_w, &s->head_in_b, dim);
        Mat *x2 = op_head_conv(t, between(f, x1), &s->head_out_w, &s->head_out_b, dim);
        x = op_residual(t, x1, x2);
        heads = f->cfg->sas.heads;
    }
    if (s->has_features) {
        int n = x->n;
        Mat *each_head = tape_view(t, x, n * heads, dim);
        Mat *y1 = op_linear_packed(t, each_head, &s->feature_in_w, &s->feature_in_b);
        Mat *y2 = op_linear_packed(t, between(f, y1), &s->feature_out_w, &s->feature_out_b);
        Mat *y = op_residual(t, y1, y2);
        x = tape_view(t, y, n, heads * y->d);
    }
    return x;
}

/* Nothing of one row enters another's: while serving, a few at a time go all the way, so that what lies between the
 * steps stays in the cache. */
Mat *sas_expand(Forward *f, const SasStack *s, Mat *x) {
    Tape *t = f->tape;
    if (t->recording) return expand_rows(f, s, x);
    Mat *y = tape_mat(t, x->n, stack_width(f->cfg, s, x->d));
    for (int i = 0; i < x->n; i += SAS_ROWS) {
        ArenaMark mark = arena_mark(&t->arena);
        Mat few = {.x = x->x + (size_t)i * (size_t)x->d, .n = MIN(SAS_ROWS, x->n - i), .d = x->d};
        const Mat *expanded = expand_rows(f, s, &few);
        BUG_ON(expanded->d != y->d);
        memcpy(y->x + (size_t)i * (size_t)y->d, expanded->x, (size_t)few.n * (size_t)y->d * sizeof(float));
        arena_rewind(&t->arena, mark);
    }
    return y;
}

Mat *sas_aggregate(Forward *f, Mat *x) {
    return op_head_average(f->tape, x, f->cfg->sas.heads / config_base_heads(f->cfg).heads);
}
