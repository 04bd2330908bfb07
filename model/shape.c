#include "model/shape.h"

#include "base/err.h"
#include "base/fixed_math.h"
#include "model/kind.h"

#include <math.h>
#include <string.h>

/* A network without attention has heads of nothing. */
HeadShape config_base_heads(const Config *c) {
    if (!c->attention.kind) return (HeadShape){.heads = 1, .kv_heads = 1, .v_heads = 1};
    HeadShape h = c->attention.kind->heads(c);
    if (!h.v_heads) h.v_heads = h.kv_heads;
    return h;
}

HeadShape config_heads(const Config *c) {
    HeadShape h = config_base_heads(c);
    if (c->sas.heads) {
        h.heads = h.kv_heads = h.v_heads = c->sas.heads;
        h.k_dim = c->sas.head_dim;
    }
    /* Conditioned noise: the key carries its mean, one for each distribution that reads it (attention.c). */
    if (c->noise.condition_dim) h.k_dim += c->noise.scope == NOISE_HEAD ? h.heads / h.kv_heads : 1;
    return h;
}

float config_rope_frequency(const Config *c, int k, int dim) {
    double f = fixed_pow((double)c->rope_theta, -2.0 * k / dim), factor = (double)c->rope_scaling.factor;
    if (c->rope_scaling.kind == ROPE_LINEAR) return (float)(f / factor);
    if (c->rope_scaling.kind != ROPE_LLAMA3) return (float)f;
    double rotations = c->rope_scaling.original_positions * f / 6.283185307179586; /* in the context of old */
    double low = (double)c->rope_scaling.low_freq_factor, high = (double)c->rope_scaling.high_freq_factor;
    double fast = MIN(1, MAX(0, (rotations - low) / (high - low)));
    return (float)((1 - fast) * f / factor + fast * f);
}

int config_rope_parts(const Config *c) {
    return c->position == POSITION_ROPE ? 1 : c->position == POSITION_ROPE2D ? 2 : 0;
}

int config_rope_dim(const Config *c) {
    if (c->sas.heads && c->sas.rope_post) return c->sas.head_dim;
    HeadShape h = config_base_heads(c);
    return h.rope_dim ? h.rope_dim : h.k_dim;
}

/* Rows before those of the image itself: the token of its class, or the row that is classified. */
static int leading_rows(const Config *c) { return c->input.kind == INPUT_TOKENS || c->pool == POOL_FIRST; }

static int image_columns(const Config *c) { return c->input.width / MAX(c->input.patch, 1); }

static int image_places(const Config *c) { return c->input.height / MAX(c->input.patch, 1) * image_columns(c); }

void config_place(const Config *c, int position, int place[2]) {
    int i = MAX(position - leading_rows(c), 0), columns = image_columns(c);
    place[0] = i / columns;
    place[1] = i % columns;
}

int config_image_rows(const Config *c) { return leading_rows(c) + image_places(c); }

size_t config_image_floats(const Config *c) {
    return (size_t)c->input.channels * (size_t)c->input.height * (size_t)c->input.width;
}

bool config_classifies(const Config *c) { return c->task >= TASK_TEXT_CLASSIFICATION; }

bool config_generates(const Config *c) { return c->task == TASK_TEXT_GENERATION && c->causal; }

bool config_ends(const Config *c, int id) {
    bool ends = id == c->eos_token_id;
    for (int i = 0; i < c->n_more_ends; i++) ends = ends || id == c->more_ends[i];
    return ends;
}

bool config_pools(const Config *c) {
    return c->task == TASK_TEXT_CLASSIFICATION || c->task == TASK_IMAGE_CLASSIFICATION;
}

int config_outputs(const Config *c) { return config_classifies(c) ? c->n_labels : c->vocab_size; }

float config_score_scale(const Config *c) {
    if (c->attention.kind->unscaled) return 1;
    return 1 / sqrtf((float)(c->sas.heads ? c->sas.head_dim : config_base_heads(c).k_dim));
}

int config_noise_heads(const Config *c) {
    if (c->noise.scope == NOISE_HEAD) return config_heads(c).heads;
    return c->noise.scope == NOISE_LAYER;
}

bool config_noise_acts(const Config *c, float scale) {
    bool means = c->noise.density == DENSITY_MIXTURE && c->noise.span != SPAN_SEQUENCE;
    return c->noise.scope != NOISE_NONE && (scale != 0 || means);
}

int config_noise_components(const Config *c) { return c->noise.span == SPAN_SEQUENCE ? c->noise.components : 0; }

KvForm config_kv_form(const Config *c) {
    if (!config_generates(c)) return KV_EXPANDED; /* nothing is cached, and there may be no attention */
    return c->attention.kind->compact && !c->sas.heads && !c->noise.condition_dim ? KV_COMPACT : KV_EXPANDED;
}

int config_check_kv_form(const Config *c, KvForm form, Err *err) {
    if (c->task != TASK_TEXT_GENERATION)
        return err_set(err, "task is %s: such a network generates no text", task_names[c->task]);
    if (!c->causal)
        return err_set(err,
                       "causal is false: a network that sees whole sequences has no KV cache and generates no text");
    if (form == KV_COMPACT && c->noise.condition_dim)
        return err_set(err, "conditioned noise (condition_dim %d) needs the expanded cache, compact was asked for",
                       c->noise.condition_dim);
    return 0;
}

int config_compact_width(const Config *c) {
    const CompactForm *compact = c->attention.kind->compact;
    HeadShape base = config_base_heads(c);
    return compact ? compact->width(c) : base.kv_heads * base.k_dim + base.v_heads * base.v_dim;
}
