#include "weights/import/qwen.h"

#include "weights/import/llama.h"

/* Layers from max_window_layers on have the window, if use_sliding_window says so at all. */
static void read_window(Config *c, JsonReader *r) {
    bool null = cJSON_IsNull(json_field(r->object, "sliding_window"));
    int window = null ? 0 : json_take_positive(r, "sliding_window", 4096);
    int full = json_take_int(r, "max_window_layers", 28);
    if (!json_take_bool(r, "use_sliding_window", false) || full >= c->n_layers) return;
    if (full > 0)
        json_reader_fail(r, "max_window_layers is %d of %d layers, only none or all with the window are supported",
                         full, c->n_layers);
    c->sliding_window = window;
}

void qwen2_config_read(Config *c, JsonReader *r) {
    llama_like_config_read(c, r);
    c->bias = BIAS_QKV;
    read_window(c, r);
}

void qwen3_config_read(Config *c, JsonReader *r) {
    llama_like_config_read(c, r);
    c->bias = json_take_bool(r, "attention_bias", false) ? BIAS_ATTENTION : BIAS_NONE;
    c->qk_norm = true;
    read_window(c, r);
}
