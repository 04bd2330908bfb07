#include "model/config_check.h"

#include "base/err.h"
#include "model/kind.h"
#include "model/network.h"
#include "model/shape.h"

#include <limits.h>
#include <string.h>

enum { HEAD_DIM_MAX = 4096, WIDTH_MAX = 1 << 20 };

typedef struct Range {
    const char *key;
    int value, low, high;
} Range;

static int check_ranges(const Range *r, size_t n, Err *err) {
    for (size_t i = 0; i < n; i++)
        if (r[i].value < r[i].low || r[i].value > r[i].high)
            return err_set(err, "%s is %d, must be %d to %d", r[i].key, r[i].value, r[i].low, r[i].high);
    return 0;
}

static int check_rope_scaling(const Config *c, Err *err) {
    float factor = c->rope_scaling.factor, low = c->rope_scaling.low_freq_factor,
          high = c->rope_scaling.high_freq_factor;
    if (c->rope_scaling.kind == ROPE_DEFAULT) return 0;
    if (c->position != POSITION_ROPE)
        return err_set(err, "rope_scaling is %s, but position is %s, not rope",
                       rope_scaling_names[c->rope_scaling.kind], position_names[c->position]);
    if (!(factor >= 1 && factor <= 1e6f))
        return err_set(err, "rope_scaling.factor is %g, must be 1 to 1e6", (double)factor);
    if (c->rope_scaling.kind == ROPE_LINEAR) return 0;
    if (!(low > 0 && low < high && high <= 1e6f))
        return err_set(err, "rope_scaling.low_freq_factor is %g and high_freq_factor %g, must be 0 < low < high <= 1e6",
                       (double)low, (double)high);
    const Range r = {"rope_scaling.original_max_position_embeddings", c->rope_scaling.original_positions, 1, 1 << 20};
    return check_ranges(&r, 1, err);
}

/* Tables of word vectors are long. */
static int most_words(const Config *c) { return c->input.kind == INPUT_VECTORS ? 1 << 24 : 1 << 20; }

static int check_sizes(const Config *c, Err *err) {
    bool patches = c->input.kind == INPUT_PATCHES;
    const Range r[] = {
        {"vocab_size", c->vocab_size, !patches, patches ? 0 : most_words(c)},
        {"hidden_size", c->hidden_size, 1, 1 << 16},
        {"num_hidden_layers", c->n_layers, 1, 1024},
        {"num_attention_heads", c->n_heads, 1, 1024},
        {"num_key_value_heads", c->n_kv_heads, 1, 1024},
        {"head_dim", c->head_dim, 1, HEAD_DIM_MAX},
        {"max_position_embeddings", c->max_positions, 1, 1 << 20},
        {"mlp.intermediate_size", c->mlp.width, 0, WIDTH_MAX},
        {"sliding_window", c->sliding_window, 0, 1 << 20},
        {"bos_token_id", c->bos_token_id, -1, c->vocab_size - 1},
        {"eos_token_id", c->eos_token_id, -1, c->vocab_size - 1},
    };
    if (check_ranges(r, COUNTOF(r), err)) return -1;
    for (int i = 0; i < c->n_more_ends; i++)
        if (c->more_ends[i] < 0 || c->more_ends[i] >= c->vocab_size)
            return err_set(err, "eos_token_id names %d, must be 0 to %d", c->more_ends[i], c->vocab_size - 1);
    if (!(c->norm_eps > 0 && c->norm_eps <= 1))
        return err_set(err, "norm_eps is %g, must be above 0 and at most 1", (double)c->norm_eps);
    if (!(c->rope_theta >= 1 && c->rope_theta <= 1e12f))
        return err_set(err, "rope_theta is %g, must be 1 to 1e12", (double)c->rope_theta);
    if (check_rope_scaling(c, err)) return -1;
    if (c->mlp.activation > ACT_SIGMOID)
        return err_set(err, "mlp.activation is %s, must be gelu, gelu_tanh, silu, relu or sigmoid",
                       activation_names[c->mlp.activation]);
    if (c->mlp.gated && !c->mlp.width)
        return err_set(err, "mlp.gated is true, but mlp.intermediate_size is 0: there is no hidden layer to gate");
    size_t plain = strspn(c->torch_dtype, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (plain == 0 || c->torch_dtype[plain]) return err_set(err, "torch_dtype is no plain word");
    return 0;
}

/* Of a rotated size: a part turns its halves against each other. */
static int check_rotated(const char *key, int size, const Config *c, Err *err) {
    int parts = config_rope_parts(c);
    if (parts == 0 || size % (2 * parts) == 0) return 0;
    return err_set(err, "%s is %d, but position %s needs %s", key, size, position_names[c->position],
                   parts == 1 ? "an even one" : "a multiple of 4");
}

static int check_attention(const Config *c, Err *err) {
    const AttentionKind *kind = c->attention.kind;
    if (!kind) return err_set(err, "attention.kind is missing");
    for (int i = 0; i < ATTENTION_VALUES && kind->keys[i]; i++)
        if (c->attention.values[i] < 1 || c->attention.values[i] > 1 << 16)
            return err_set(err, "attention.%s is %d, must be 1 to %d", kind->keys[i], c->attention.values[i], 1 << 16);
    if (!kind->own_kv_heads && c->n_kv_heads != c->n_heads)
        return err_set(err, "num_key_value_heads %d is not num_attention_heads %d, as attention.kind %s needs",
                       c->n_kv_heads, c->n_heads, kind->name);
    if (c->n_heads % c->n_kv_heads)
        return err_set(err, "num_attention_heads %d is not a multiple of num_key_value_heads %d", c->n_heads,
                       c->n_kv_heads);
    if (c->qk_norm && !kind->norms_heads)
        return err_set(err, "qk_norm is true, but attention.kind is %s, which has no norms of its heads", kind->name);
    if (c->sliding_window && !c->causal)
        return err_set(err, "sliding_window is %d, but causal is false", c->sliding_window);
    bool rotates = !kind->rotates_part && !(c->sas.heads && c->sas.rope_post);
    if (rotates && check_rotated("head_dim", c->head_dim, c, err)) return -1;
    return kind->check ? kind->check(c, err) : 0;
}

/* One vector for a layer, so scope layer. The networks of their own have no stream of rows to add it to. */
static int check_residual(const Config *c, Err *err) {
    if (c->noise.span != SPAN_SEQUENCE)
        return err_set(err, "noise.site is residual, but noise.span is %s, not sequence", span_names[c->noise.span]);
    if (c->noise.density != DENSITY_MIXTURE)
        return err_set(err, "noise.site is residual, but noise.density is %s, not mixture",
                       density_names[c->noise.density]);
    if (c->noise.scope != NOISE_LAYER)
        return err_set(err, "noise.site is residual, but noise.scope is %s, not layer", scope_names[c->noise.scope]);
    if (c->network) return err_set(err, "noise.site is residual, but network is %s", c->network->name);
    return 0;
}

static int check_noise(const Config *c, Err *err) {
    if (c->noise.scope == NOISE_NONE) return 0;
    const Range r[] = {
        {"noise.components", c->noise.components, c->noise.density == DENSITY_MIXTURE, NOISE_COMPONENTS_MAX},
        {"noise.condition_dim", c->noise.condition_dim, 0, 1 << 14},
    };
    if (check_ranges(r, COUNTOF(r), err)) return -1;
    if (c->noise.density != DENSITY_MIXTURE && c->noise.components)
        return err_set(err, "noise.components is %d, but noise.density is %s, not mixture", c->noise.components,
                       density_names[c->noise.density]);
    if (c->noise.density != DENSITY_GAUSSIAN && c->noise.condition_dim)
        return err_set(err, "noise.conditioned is true, but noise.density is %s, not gaussian",
                       density_names[c->noise.density]);
    if (c->noise.span == SPAN_SEQUENCE && c->noise.condition_dim)
        return err_set(err, "noise.span is sequence, but noise.conditioned is true");
    return c->noise.site == SITE_RESIDUAL ? check_residual(c, err) : 0;
}

static int check_sas(const Config *c, Err *err) {
    if (!c->sas.heads) return 0;
    const Range r[] = {
        {"sas.heads", c->sas.heads, 1, 4096},
        {"sas.head_dim", c->sas.head_dim, 1, HEAD_DIM_MAX},
        {"sas.kernel", c->sas.kernel, 0, 63},
    };
    if (check_ranges(r, COUNTOF(r), err)) return -1;
    int base = config_base_heads(c).heads;
    if (c->sas.heads % base)
        return err_set(err, "sas.heads %d is not a multiple of %d, the heads of attention.kind %s", c->sas.heads, base,
                       c->attention.kind->name);
    if (c->sas.kernel && c->sas.kernel % 2 == 0) return err_set(err, "sas.kernel is %d, must be odd", c->sas.kernel);
    if (!c->sas.kernel && c->sas.heads != base)
        return err_set(err, "sas.kernel is 0, so there are no more heads than %d, but sas.heads is %d", base,
                       c->sas.heads);
    if (!c->sas.kernel && c->sas.head_dim == config_base_heads(c).k_dim)
        return err_set(err, "sas.kernel is 0 and sas.head_dim %d as without sas: no layer is left of it",
                       c->sas.head_dim);
    if (!c->sas.rope_post) return 0;
    if (!config_rope_parts(c))
        return err_set(err, "sas.rope is post, but position is %s, not rope", position_names[c->position]);
    if (!c->attention.kind->rotates_late)
        return err_set(err,
                       "sas.rope is post, but attention.kind is %s, which does not rotate its queries and keys last",
                       c->attention.kind->name);
    return check_rotated("sas.head_dim", c->sas.head_dim, c, err);
}

static int check_image(const Config *c, Err *err) {
    bool patches = c->input.kind == INPUT_PATCHES;
    int height = c->input.height, width = c->input.width, patch = c->input.patch;
    const Range r[] = {{"input.image_size[0]", height, 1, 1 << 12},
                       {"input.image_size[1]", width, 1, 1 << 12},
                       {"input.channels", c->input.channels, patches, patches ? 64 : 0},
                       {"input.patch_size", patch, patches, patches ? 1 << 10 : 0}};
    if (check_ranges(r, COUNTOF(r), err)) return -1;
    if (patches && (height % patch || width % patch))
        return err_set(err, "input.image_size is [%d,%d], must be multiples of input.patch_size %d", height, width,
                       patch);
    int rows = config_image_rows(c);
    if (patches && rows > c->max_positions)
        return err_set(err, "an image has %d rows, but max_position_embeddings is %d", rows, c->max_positions);
    if (c->position == POSITION_ROPE2D && rows < c->max_positions)
        return err_set(err, "position is rope2d and max_position_embeddings %d, but an image has %d rows",
                       c->max_positions, rows);
    return 0;
}

static int check_task(const Config *c, Err *err) {
    const char *task = task_names[c->task];
    bool images = c->task == TASK_IMAGE_CLASSIFICATION, patches = c->input.kind == INPUT_PATCHES;
    if (!(c->dropout >= 0 && c->dropout < 1))
        return err_set(err, "dropout is %g, must be 0 or more and below 1", (double)c->dropout);
    if (c->task == TASK_FILL_MASK && c->causal)
        return err_set(err, "task is fill-mask, but causal is true: the words after a mask would not be seen");
    if (c->task == TASK_FILL_MASK && (c->mask_token_id < 0 || c->mask_token_id >= c->vocab_size))
        return err_set(err, "mask_token_id is %d, must be 0 to %d", c->mask_token_id, c->vocab_size - 1);
    if (config_classifies(c) ? c->n_labels < 2 : c->n_labels > 0)
        return err_set(err, "id2label has %d names, but task is %s, which has %s", c->n_labels, task,
                       config_classifies(c) ? "two or more" : "none");
    if (images != patches) return err_set(err, "task is %s, but input.kind is %s", task, input_names[c->input.kind]);
    if (c->position == POSITION_ROPE2D && c->input.height == 0)
        return err_set(err, "position is rope2d, but input.image_size is missing");
    return patches || c->input.height ? check_image(c, err) : 0;
}

static int check_noble(const Config *c, Err *err) {
    if (!c->noble.layers) return 0;
    const Range r[] = {{"noble.rank", c->noble.rank, 0, 1 << 14}, {"noble.layers", c->noble.layers, 1, 3}};
    if (check_ranges(r, COUNTOF(r), err)) return -1;
    if (c->noble.layers == 3 && c->noble.activation != NOBLE_COSNET)
        return err_set(err, "noble.layers is 3, but noble.activation is %s, not cosnet",
                       noble_activation_names[c->noble.activation]);
    if (c->noble.recipe == RECIPE_KAIMING && c->noble.rank > 0)
        return err_set(err, "noble.recipe is kaiming, which is a host's, but noble.rank is %d, not 0", c->noble.rank);
    return 0;
}

static int check_product(const char *a_key, int64_t a, const char *b_key, int64_t b, Err *err) {
    if (a * b <= INT_MAX) return 0;
    return err_set(err, "%s %lld times %s %lld is above %d", a_key, (long long)a, b_key, (long long)b, INT_MAX);
}

/* Every tensor's rows times columns must fit an int. Each linear has one side of at most `wide` and the other of at
 * most `deep`, whatever the kind: its own integers are inner widths (mla) or ranks that multiply a head (tpa). */
static int check_products(const Config *c, Err *err) {
    int64_t values = 0;
    for (int i = 0; i < ATTENTION_VALUES && c->attention.kind->keys[i]; i++) values += c->attention.values[i];
    HeadShape base = config_base_heads(c), h = config_heads(c);
    int64_t heads = base.heads, head = MAX((int64_t)base.k_dim + base.v_dim, values);
    int64_t wide = MAX(MAX(c->hidden_size, 2 * (int64_t)c->mlp.width), heads * head);
    int64_t deep = MAX(MAX(c->hidden_size, values), MAX(c->noble.rank, c->noise.condition_dim));
    int64_t expanded = h.heads * ((int64_t)h.k_dim + h.v_dim), square = (int64_t)base.k_dim * base.k_dim;
    if (expanded > WIDTH_MAX)
        return err_set(err, "%s %d times head size %d is above %d", c->sas.heads ? "sas.heads" : "num_attention_heads",
                       h.heads, h.k_dim + h.v_dim, WIDTH_MAX);
    int rows = c->network ? 0 : c->vocab_size;
    if (check_product("vocab_size", rows, "hidden_size", c->hidden_size, err)) return -1;
    int64_t pixels = (int64_t)c->input.channels * c->input.patch * c->input.patch;
    if (check_product("the pixels of a patch,", pixels, "hidden_size", c->hidden_size, err)) return -1;
    if (check_product("max_position_embeddings", c->max_positions, "hidden_size", c->hidden_size, err)) return -1;
    if (check_product("the widest linear's output", wide, "its input", deep, err)) return -1;
    if (check_product("num_attention_heads", heads, "squared head size", square, err)) return -1;
    return check_product("squared sas.heads", (int64_t)c->sas.heads * c->sas.heads, "sas.kernel", c->sas.kernel, err);
}

static int check_network(const Config *c, Err *err) {
    const char *name = c->network ? c->network->name : "transformer", *kind = input_names[c->input.kind];
    if ((c->input.kind == INPUT_VECTORS) != (c->network != NULL))
        return err_set(err, "network is %s, but input.kind is %s", name, kind);
    const Range r[] = {{"input.size", c->input.size, c->network != NULL, c->network ? 1 << 12 : 0}};
    if (check_ranges(r, COUNTOF(r), err)) return -1;
    if (check_product("vocab_size", c->vocab_size, "input.size", c->input.size, err)) return -1;
    return c->network ? c->network->check(c, err) : 0;
}

/* A network without attention has few keys. */
static int check_few(const Config *c, Err *err) {
    const Range r[] = {{"vocab_size", c->vocab_size, 1, most_words(c)},
                       {"hidden_size", c->hidden_size, 1, 1 << 13},
                       {"num_hidden_layers", c->n_layers, 1, 1024},
                       {"max_position_embeddings", c->max_positions, 1, 1 << 20}};
    return check_ranges(r, COUNTOF(r), err) || check_task(c, err) || check_network(c, err) ? -1 : 0;
}

int config_check(const Config *c, Err *err) {
    if (c->network && !c->network->attends) return check_few(c, err);
    if (check_sizes(c, err) || check_attention(c, err) || check_noise(c, err)) return -1;
    if (check_sas(c, err) || check_noble(c, err) || check_task(c, err)) return -1;
    if (check_network(c, err)) return -1;
    return check_products(c, err);
}
