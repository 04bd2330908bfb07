#include "model/config.h"

const char *const bias_names[4] = {"none", "all", "attention", "qkv"};
const char *const rope_scaling_names[3] = {"default", "linear", "llama3"};
const char *const norm_names[2] = {[NORM_LAYER] = "layernorm", [NORM_RMS] = "rmsnorm"};
const char *const position_names[5] = {[POSITION_LEARNED] = "learned",
                                       [POSITION_ROPE] = "rope",
                                       [POSITION_NONE] = "none",
                                       [POSITION_SINUSOIDAL] = "sinusoidal",
                                       [POSITION_ROPE2D] = "rope2d"};
const char *const activation_names[7] = {[ACT_GELU] = "gelu",
                                         [ACT_GELU_TANH] = "gelu_tanh",
                                         [ACT_SILU] = "silu",
                                         [ACT_RELU] = "relu",
                                         [ACT_SIGMOID] = "sigmoid",
                                         [ACT_TANH] = "tanh",
                                         [ACT_LEAKY_RELU] = "leaky_relu"};
const char *const block_norm_names[3] = {[BLOCK_PRE] = "pre", [BLOCK_POST] = "post", [BLOCK_NO_NORM] = "none"};
const char *const input_names[3] = {
    [INPUT_TOKENS] = "tokens", [INPUT_PATCHES] = "patches", [INPUT_VECTORS] = "vectors"};
const char *const pool_names[3] = {[POOL_LAST] = "last", [POOL_MEAN] = "mean", [POOL_FIRST] = "first"};
const char *const task_names[5] = {[TASK_TEXT_GENERATION] = "text-generation",
                                   [TASK_FILL_MASK] = "fill-mask",
                                   [TASK_TEXT_CLASSIFICATION] = "text-classification",
                                   [TASK_TOKEN_CLASSIFICATION] = "token-classification",
                                   [TASK_IMAGE_CLASSIFICATION] = "image-classification"};
const char *const scope_names[3] = {[NOISE_NONE] = "none", [NOISE_LAYER] = "layer", [NOISE_HEAD] = "head"};
const char *const density_names[2] = {[DENSITY_GAUSSIAN] = "gaussian", [DENSITY_MIXTURE] = "mixture"};
const char *const site_names[2] = {[SITE_QUERY] = "query", [SITE_RESIDUAL] = "residual"};
const char *const span_names[3] = {[SPAN_PAIR] = "pair", [SPAN_KEY] = "key", [SPAN_SEQUENCE] = "sequence"};
const char *const sas_activation_names[2] = {"none", "relu"}, *const sas_rope_names[2] = {"pre", "post"};
const char *const noble_activation_names[5] = {[NOBLE_COSNET] = "cosnet",
                                               [NOBLE_TANH] = "tanh",
                                               [NOBLE_GELU] = "gelu",
                                               [NOBLE_LEAKY_RELU] = "leaky_relu",
                                               [NOBLE_RELU] = "relu"};

const char *const recipe_names[3] = {
    [RECIPE_PAPER] = "paper", [RECIPE_REPOSITORY] = "repository", [RECIPE_KAIMING] = "kaiming"};
