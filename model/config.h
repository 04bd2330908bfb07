/* config: what a checkpoint's config.json says. One struct for the whole family (docs/spec.md 1):
 * attention.kind x noise x sas x noble. JSON is read and written in weights/config_json.h. */
#ifndef NOISED_CONFIG_H
#define NOISED_CONFIG_H

#include "base/err.h"
#include "model/tensor.h"

typedef enum NormKind { NORM_LAYER, NORM_RMS } NormKind;
typedef enum PositionKind {
    POSITION_LEARNED,
    POSITION_ROPE,
    POSITION_NONE,
    POSITION_SINUSOIDAL,
    POSITION_ROPE2D
} PositionKind;
typedef enum RopeScaling { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 } RopeScaling;
typedef enum BiasPlaces { BIAS_NONE, BIAS_ALL, BIAS_ATTENTION, BIAS_QKV } BiasPlaces; /* all: of layernorms too */
typedef enum BlockNorm { BLOCK_PRE, BLOCK_POST, BLOCK_NO_NORM } BlockNorm;
typedef enum InputKind { INPUT_TOKENS, INPUT_PATCHES, INPUT_VECTORS } InputKind;
typedef enum Pool { POOL_LAST, POOL_MEAN, POOL_FIRST } Pool;
typedef enum NoiseScope { NOISE_NONE, NOISE_LAYER, NOISE_HEAD } NoiseScope;
typedef enum NoiseDensity { DENSITY_GAUSSIAN, DENSITY_MIXTURE } NoiseDensity;
typedef enum NoiseSpan { SPAN_PAIR, SPAN_KEY, SPAN_SEQUENCE } NoiseSpan; /* for what a number is drawn once */
typedef enum NoiseSite { SITE_QUERY, SITE_RESIDUAL } NoiseSite;          /* where span sequence is added */
typedef enum NobleActivation { NOBLE_COSNET, NOBLE_TANH, NOBLE_GELU, NOBLE_LEAKY_RELU, NOBLE_RELU } NobleActivation;

/* Initial values and learning-rate multipliers of NOBLE: the paper's, or those of its authors' repository; of rank 0
 * also those of the paper's host, whose linears start twice as large. */
typedef enum NobleRecipe { RECIPE_PAPER, RECIPE_REPOSITORY, RECIPE_KAIMING } NobleRecipe;

/* What the network is for, and so which head it has (shape.h). */
typedef enum TaskKind {
    TASK_TEXT_GENERATION,
    TASK_FILL_MASK,
    TASK_TEXT_CLASSIFICATION, /* from here on with labels */
    TASK_TOKEN_CLASSIFICATION,
    TASK_IMAGE_CLASSIFICATION
} TaskKind;

enum { END_IDS_MAX = 8 };
enum { ATTENTION_VALUES = 8, NOISE_COMPONENTS_MAX = 64 };

typedef struct AttentionKind AttentionKind;
typedef struct Network Network;

typedef struct Config {
    int vocab_size, hidden_size, n_layers, n_heads, n_kv_heads, head_dim, max_positions;
    NormKind norm;
    float norm_eps;
    PositionKind position;
    float rope_theta;
    struct {
        RopeScaling kind;
        float factor, low_freq_factor, high_freq_factor; /* the last two: llama3 */
        int original_positions;                          /* llama3: the context it was trained at first */
    } rope_scaling;
    BiasPlaces bias;
    bool tie_embeddings;
    bool qk_norm;       /* an rmsnorm with a gain over every head of q and k, before rope */
    int sliding_window; /* row i sees rows i - sliding_window + 1 .. i; 0: all before it */
    bool causal;        /* row i sees rows 0..i; else all of its sequence, which then comes whole and has no cache */
    struct {
        Activation activation;
        bool gated;
        int width; /* intermediate_size; 0: no hidden layer, act(o_proj(heads)) alone */
    } mlp;
    struct {
        BlockNorm norm;
        bool no_residual; /* what a sublayer makes takes the place of its input, instead of being added to it */
    } block;
    float dropout;          /* training: of the embedded input and of what each sublayer makes */
    const Network *network; /* NULL: the transformer */
    int decoder_layers;     /* encoder-decoder only */
    TaskKind task;
    int mask_token_id; /* fill-mask only */
    int n_labels;      /* 0 unless the task is a classification; their names are in weights/labels.h */
    Pool pool;         /* which rows of a sequence are classified */
    struct {
        InputKind kind;
        int height, width; /* of an image in pixels: patches, or tokens that are the pixels of an image; else 0 */
        int channels, patch;
        int size; /* vectors: of the frozen vector of a word */
    } input;
    struct {
        const AttentionKind *kind;
        int values[ATTENTION_VALUES]; /* the kind's own integers, in the order of kind->keys */
    } attention;
    struct {
        NoiseScope scope; /* NOISE_NONE: no noise object */
        NoiseDensity density;
        NoiseSpan span;
        NoiseSite site;    /* residual: span sequence, density mixture */
        int components;    /* mixture: number of components M */
        int condition_dim; /* conditioned: width m of the latent; 0 = not conditioned */
    } noise;
    struct {
        int heads, head_dim, kernel; /* heads = 0: no sas object; kernel = 0: no layers over the heads */
        bool relu, rope_post;        /* relu false = the linear ablation */
    } sas;
    struct {
        int rank; /* 0: no branches */
        NobleActivation activation;
        int layers; /* 0: no noble object */
        NobleRecipe recipe;
    } noble;
    int bos_token_id, eos_token_id; /* -1 = none */
    int more_ends[END_IDS_MAX];     /* [n_more_ends] further ids that end a text, as instruction-tuned models have */
    int n_more_ends;
    char torch_dtype[16]; /* informative: "float32", "bfloat16", … */
} Config;

/* Names as config.json spells them, indexed by the enums above. */
extern const char *const bias_names[4], *const rope_scaling_names[3]; /* bias: "none" and "all" are false and true */
extern const char *const norm_names[2],
    *const position_names[5], *const activation_names[7], *const scope_names[3], *const density_names[2],
                                                                                     *const noble_activation_names[5],
                                                                                         *const recipe_names[3];
extern const char *const span_names[3], *const site_names[2];
extern const char *const sas_activation_names[2], *const sas_rope_names[2]; /* by `relu`, by `rope_post` */

extern const char *const task_names[5], *const pool_names[3], *const input_names[3], *const block_norm_names[3];

/* What the cache holds of a token: EXPANDED, the k and v that the scores are made of; COMPACT, a smaller row from which
 * they are restored at every step (the latent of mla, the factors of tpa, the k and v before SAS). */
typedef enum KvForm { KV_EXPANDED, KV_COMPACT } KvForm;

/* What enters the softmax: query head h reads key head h / (heads / kv_heads) and value head h / (heads / v_heads).
 * v_heads divides kv_heads, and that heads. */
typedef struct HeadShape {
    int heads;             /* query heads: H or Hx */
    int kv_heads, v_heads; /* heads of k and of v as cached: G, H or Hx; a kind's v_heads 0 means kv_heads */
    int k_dim, v_dim;      /* floats of one head's k and v */
    int rope_dim;          /* of k_dim, what rope rotates; 0: all */
} HeadShape;

#endif
