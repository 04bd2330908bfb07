#include "weights/presets_words.h"

#include "model/kind.h"
#include "model/bilstm.h"
#include "model/encoder_decoder.h"

#include <string.h>

enum { HEAD_DIM = 5, VECTOR_SIZE = 25, WORDS = 2, POSITIONS = 512 };

static const struct {
    const char *name;
    int hidden, encoder, decoder, width; /* decoder 0: a bilstm of `encoder` layers */
} sizes[] = {
    {"trec-base", 50, 4, 4, 100},         {"trec-narrow", 10, 4, 4, 20},     {"trec-deep", 50, 8, 8, 100},
    {"trec-wideshallow", 400, 2, 2, 800}, {"trec-narrowdeep", 10, 8, 8, 20}, {"trec-narrowshallow", 10, 2, 2, 20},
    {"ner-wide", 400, 4, 0, 0},           {"ner-deep", 50, 8, 0, 0},         {"ner-shallow", 50, 2, 0, 0},
    {"ner-widedeep", 400, 8, 0, 0},
};

static void make_encoder_decoder(Config *c, int decoder_layers, int width) {
    c->network = &encoder_decoder_network;
    c->decoder_layers = decoder_layers;
    c->task = TASK_TEXT_CLASSIFICATION;
    c->pool = POOL_MEAN;
    c->n_heads = c->n_kv_heads = c->hidden_size / HEAD_DIM;
    c->head_dim = HEAD_DIM;
    c->norm_eps = 1e-5f;
    c->position = POSITION_SINUSOIDAL;
    c->rope_theta = 10000;
    c->bias = BIAS_ALL;
    c->block.norm = BLOCK_POST;
    c->dropout = 0.1f;
    c->mlp.activation = ACT_RELU;
    c->mlp.width = width;
    c->attention.kind = attention_kind_find("mha");
}

bool preset_words(Config *c, const char *name) {
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        if (strcmp(name, sizes[i].name)) continue;
        *c = (Config){.vocab_size = WORDS,
                      .hidden_size = sizes[i].hidden,
                      .n_layers = sizes[i].encoder,
                      .max_positions = POSITIONS,
                      .input = {.kind = INPUT_VECTORS, .size = VECTOR_SIZE},
                      .n_labels = 2,
                      .task = TASK_TOKEN_CLASSIFICATION,
                      .network = &bilstm_network,
                      .bos_token_id = -1,
                      .eos_token_id = -1,
                      .torch_dtype = "float32"};
        if (sizes[i].decoder) make_encoder_decoder(c, sizes[i].decoder, sizes[i].width);
        return true;
    }
    return false;
}

const char *preset_words_name(int i) { return i < (int)COUNTOF(sizes) ? sizes[i].name : NULL; }
