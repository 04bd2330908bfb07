/* A Config as config.json has it. Defaults of the keys that only some networks have are not written. */
#include "base/err.h"
#include "base/json_write.h"
#include "model/kind.h"
#include "model/network.h"
#include "model/shape.h"
#include "weights/config_json.h"

#include <stdlib.h>

/* An object or a list on one line. */
static void open_on_line(Buffer *b, const char *key, char bracket) {
    json_open(b, key, bracket);
    b->layout = JSON_SPACED;
}

static void close_on_line(Buffer *b, char bracket) {
    json_close(b, bracket);
    b->layout = JSON_LINES;
}

/* In the fewest digits that read back as the same float: of 10000 that is 1e+04, where answers have 10000. */
static void put_shortest(Buffer *b, const char *key, float v) {
    char text[32];
    int digits = 0;
    do snprintf(text, sizeof text, "%.*g", ++digits, (double)v);
    while (strtof(text, NULL) != v && digits < 9);
    json_put_rounded(b, key, (double)v, digits);
}

static void put_token(Buffer *b, const char *key, int id) {
    if (id >= 0) json_put_int(b, key, id);
}

/* ---- what the network is for and what it reads ---- */

static void put_labels(Buffer *b, const Labels *labels) {
    open_on_line(b, "id2label", '{');
    for (int i = 0; i < labels->n; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        json_put_text(b, id, labels_name(labels, i));
    }
    close_on_line(b, '}');
}

static void put_input(Buffer *b, const Config *c) {
    open_on_line(b, "input", '{');
    json_put_text(b, "kind", input_names[c->input.kind]);
    if (c->input.kind == INPUT_VECTORS)
        json_put_int(b, "size", c->input.size);
    else
        json_put_ints(b, "image_size", (int[]){c->input.height, c->input.width}, 2);
    if (c->input.kind == INPUT_PATCHES) {
        json_put_int(b, "channels", c->input.channels);
        json_put_int(b, "patch_size", c->input.patch);
    }
    close_on_line(b, '}');
}

static void put_task(Buffer *b, const Config *c, const Labels *labels) {
    if (c->network) json_put_text(b, "network", c->network->name);
    if (c->decoder_layers) json_put_int(b, "num_decoder_layers", c->decoder_layers);
    if (c->task != TASK_TEXT_GENERATION) json_put_text(b, "task", task_names[c->task]);
    if (config_classifies(c) && labels) put_labels(b, labels);
    if (config_pools(c)) json_put_text(b, "pool", pool_names[c->pool]);
    if (c->task == TASK_FILL_MASK) json_put_int(b, "mask_token_id", c->mask_token_id);
    if (c->input.height || c->input.size) put_input(b, c);
    if (c->block.norm != BLOCK_PRE || c->block.no_residual) {
        open_on_line(b, "block", '{');
        json_put_text(b, "norm", block_norm_names[c->block.norm]);
        json_put_bool(b, "residual", !c->block.no_residual);
        close_on_line(b, '}');
    }
    if (c->dropout > 0) put_shortest(b, "dropout", c->dropout);
}

/* ---- what its layers are ---- */

static void put_rope_scaling(Buffer *b, const Config *c) {
    if (c->rope_scaling.kind == ROPE_DEFAULT) return;
    json_open(b, "rope_scaling", '{');
    if (c->rope_scaling.kind == ROPE_LLAMA3) {
        put_shortest(b, "low_freq_factor", c->rope_scaling.low_freq_factor);
        put_shortest(b, "high_freq_factor", c->rope_scaling.high_freq_factor);
        json_put_int(b, "original_max_position_embeddings", c->rope_scaling.original_positions);
    }
    put_shortest(b, "factor", c->rope_scaling.factor);
    json_put_text(b, "rope_type", rope_scaling_names[c->rope_scaling.kind]);
    json_close(b, '}');
}

static void put_bias(Buffer *b, const Config *c) {
    if (c->bias > BIAS_ALL)
        json_put_text(b, "bias", bias_names[c->bias]);
    else
        json_put_bool(b, "bias", c->bias == BIAS_ALL);
}

static void put_attention(Buffer *b, const Config *c) {
    const AttentionKind *kind = c->attention.kind;
    open_on_line(b, "attention", '{');
    json_put_text(b, "kind", kind->name);
    for (int i = 0; i < ATTENTION_VALUES && kind->keys[i]; i++) json_put_int(b, kind->keys[i], c->attention.values[i]);
    close_on_line(b, '}');
}

static void put_noise(Buffer *b, const Config *c) {
    open_on_line(b, "noise", '{');
    json_put_text(b, "scope", scope_names[c->noise.scope]);
    json_put_text(b, "density", density_names[c->noise.density]);
    if (c->noise.span != SPAN_PAIR) json_put_text(b, "span", span_names[c->noise.span]);
    if (c->noise.site != SITE_QUERY) json_put_text(b, "site", site_names[c->noise.site]);
    if (c->noise.components) json_put_int(b, "components", c->noise.components);
    if (c->noise.condition_dim) {
        json_put_bool(b, "conditioned", true);
        json_put_int(b, "condition_dim", c->noise.condition_dim);
    }
    close_on_line(b, '}');
}

static void put_sas(Buffer *b, const Config *c) {
    open_on_line(b, "sas", '{');
    json_put_int(b, "heads", c->sas.heads);
    json_put_int(b, "head_dim", c->sas.head_dim);
    json_put_int(b, "kernel", c->sas.kernel);
    json_put_text(b, "activation", sas_activation_names[c->sas.relu]);
    json_put_text(b, "rope", sas_rope_names[c->sas.rope_post]);
    close_on_line(b, '}');
}

static void put_noble(Buffer *b, const Config *c) {
    open_on_line(b, "noble", '{');
    json_put_int(b, "rank", c->noble.rank);
    json_put_text(b, "activation", noble_activation_names[c->noble.activation]);
    json_put_int(b, "layers", c->noble.layers);
    if (c->noble.recipe != RECIPE_PAPER) json_put_text(b, "recipe", recipe_names[c->noble.recipe]);
    close_on_line(b, '}');
}

static void put_blocks(Buffer *b, const Config *c) {
    json_put_int(b, "num_attention_heads", c->n_heads);
    json_put_int(b, "num_key_value_heads", c->n_kv_heads);
    json_put_int(b, "head_dim", c->head_dim);
    json_put_text(b, "norm", norm_names[c->norm]);
    put_shortest(b, "norm_eps", c->norm_eps);
    json_put_text(b, "position", position_names[c->position]);
    put_shortest(b, "rope_theta", c->rope_theta);
    put_rope_scaling(b, c);
    put_bias(b, c);
    if (c->qk_norm) json_put_bool(b, "qk_norm", true);
    if (c->sliding_window) json_put_int(b, "sliding_window", c->sliding_window);
    json_put_bool(b, "tie_word_embeddings", c->tie_embeddings);
    if (!c->causal) json_put_bool(b, "causal", false);
    open_on_line(b, "mlp", '{');
    json_put_text(b, "activation", activation_names[c->mlp.activation]);
    json_put_bool(b, "gated", c->mlp.gated);
    json_put_int(b, "intermediate_size", c->mlp.width);
    close_on_line(b, '}');
    put_attention(b, c);
    if (c->noise.scope != NOISE_NONE) put_noise(b, c);
    if (c->sas.heads) put_sas(b, c);
    if (c->noble.layers) put_noble(b, c);
}

static void put_ends(Buffer *b, const Config *c) {
    if (c->n_more_ends == 0) {
        put_token(b, "eos_token_id", c->eos_token_id);
        return;
    }
    open_on_line(b, "eos_token_id", '[');
    json_put_int(b, NULL, c->eos_token_id);
    for (int i = 0; i < c->n_more_ends; i++) json_put_int(b, NULL, c->more_ends[i]);
    close_on_line(b, ']');
}

char *config_json_print(const Config *c, const Labels *labels) {
    Buffer b = {0};
    json_open(&b, NULL, '{');
    b.layout = JSON_LINES;
    json_put_text(&b, "model_type", "noised");
    put_task(&b, c, labels);
    if (c->vocab_size) json_put_int(&b, "vocab_size", c->vocab_size);
    json_put_int(&b, "hidden_size", c->hidden_size);
    json_put_int(&b, "num_hidden_layers", c->n_layers);
    json_put_int(&b, "max_position_embeddings", c->max_positions);
    if (c->attention.kind) put_blocks(&b, c);
    put_token(&b, "bos_token_id", c->bos_token_id);
    put_ends(&b, c);
    json_put_text(&b, "torch_dtype", c->torch_dtype);
    buffer_text(&b, "\n");
    json_close(&b, '}');
    buffer_text(&b, "\n");
    return json_end_text(&b);
}
