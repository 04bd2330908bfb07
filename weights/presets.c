#include "weights/presets.h"

#include "base/err.h"
#include "base/options/guess.h"
#include "model/kind.h"
#include "model/config_check.h"
#include "weights/config_json.h"
#include "weights/presets_words.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef enum SizeId { NANO, TINY, M124, M250, M350, B1_4, B1_5, N_SIZES } SizeId;

/* Gated widths are 8/3 d, down to an integer for 124m, 350m and 1.5b (SAS), up to a multiple of 64 for the small ones
 * and for 250m and 1.4b, the hosts of NOBLE. */
static const struct {
    const char *name;
    int vocab, hidden, layers, heads, head_dim, width, gated_width, positions;
} sizes[N_SIZES] = {
    [NANO] = {"nano", 512, 64, 2, 4, 16, 256, 192, 64},
    [TINY] = {"tiny", 4096, 256, 4, 4, 64, 1024, 704, 256},
    [M124] = {"124m", 50304, 768, 12, 12, 64, 3072, 2048, 1024},
    [M250] = {"250m", 50257, 1024, 12, 8, 128, 4096, 2752, 1024},
    [M350] = {"350m", 50304, 1024, 24, 16, 64, 4096, 2730, 1024},
    [B1_4] = {"1.4b", 50257, 2048, 24, 16, 128, 8192, 5504, 1024},
    [B1_5] = {"1.5b", 50304, 1600, 48, 25, 64, 6400, 4266, 1024},
};

static void set_heads(Config *c, int heads, int kv_heads) {
    c->n_heads = heads;
    c->n_kv_heads = kv_heads;
}

static void make_noise_layer(Config *c, SizeId size) {
    (void)size;
    c->noise.scope = NOISE_LAYER;
}

static void make_noise_head(Config *c, SizeId size) {
    (void)size;
    c->noise.scope = NOISE_HEAD;
}

static void make_noise_key(Config *c, SizeId size) {
    make_noise_head(c, size);
    c->noise.span = SPAN_KEY;
}

static void make_noise_sequence(Config *c, SizeId size) {
    make_noise_head(c, size);
    c->noise.span = SPAN_SEQUENCE;
}

static void make_noise_code(Config *c, SizeId size) {
    make_noise_layer(c, size);
    c->noise.span = SPAN_SEQUENCE;
    c->noise.density = DENSITY_MIXTURE;
    c->noise.components = 16;
    c->noise.site = SITE_RESIDUAL;
}

/* gqa and mqa have as many parameters as mha: 2 heads + 2 kv heads = 4 of mha's heads. */
static void make_gqa(Config *c, SizeId size) {
    (void)size;
    set_heads(c, 2 * c->n_heads - 2, 2);
}

static void make_mqa(Config *c, SizeId size) {
    (void)size;
    set_heads(c, 2 * c->n_heads - 1, 1);
}

/* The kind's own integer `key`. */
static void set_key(Config *c, const char *key, int value) {
    c->attention.values[attention_kind_key(c->attention.kind, key)] = value;
}

static void make_mla(Config *c, SizeId size) {
    static const struct {
        int heads, q_rank, kv_rank, nope_dim, rope_dim, v_dim;
    } rows[N_SIZES] = {[NANO] = {4, 32, 16, 16, 8, 16},      [TINY] = {4, 128, 64, 64, 32, 64},
                       [M124] = {13, 512, 256, 64, 32, 64},  [M250] = {11, 1024, 512, 64, 32, 64},
                       [M350] = {23, 1024, 512, 64, 32, 64}, [B1_4] = {46, 1024, 512, 64, 32, 64},
                       [B1_5] = {49, 1024, 512, 64, 32, 64}};
    set_heads(c, rows[size].heads, rows[size].heads);
    set_key(c, "q_lora_rank", rows[size].q_rank);
    set_key(c, "kv_lora_rank", rows[size].kv_rank);
    set_key(c, "qk_nope_head_dim", rows[size].nope_dim);
    set_key(c, "qk_rope_head_dim", rows[size].rope_dim);
    set_key(c, "v_head_dim", rows[size].v_dim);
}

static void make_tpa(Config *c, SizeId size) {
    static const int heads[N_SIZES] = {
        [NANO] = 12, [TINY] = 12, [M124] = 36, [M250] = 20, [M350] = 48, [B1_4] = 50, [B1_5] = 78};
    set_heads(c, heads[size], heads[size]);
    set_key(c, "q_rank", 6);
    set_key(c, "rank", 2);
}

/* Two maps a head: half the heads have mha's parameters. */
static void make_differential(Config *c, SizeId size) {
    (void)size;
    set_heads(c, (c->n_heads + 1) / 2, (c->n_heads + 1) / 2);
}

/* A head of the full width has as many parameters as all heads of mha; two are the fewest to put under each other. */
static void make_lecture(Config *c, SizeId size) {
    (void)size;
    set_heads(c, 2, 2);
    c->head_dim = c->hidden_size;
}

static void make_sas(Config *c, SizeId size) {
    (void)size;
    c->sas.heads = 3 * c->n_heads;
    c->sas.head_dim = c->head_dim * 3 / 2;
    c->sas.kernel = 5;
    c->sas.relu = true;
}

static void make_noble_host(Config *c, SizeId size) {
    (void)size;
    c->mlp.activation = ACT_GELU;
    c->tie_embeddings = false;
}

static void make_noble(Config *c, SizeId size) {
    make_noble_host(c, size);
    c->noble.rank = size == NANO ? 8 : size == TINY ? 16 : 64;
    c->noble.activation = NOBLE_COSNET;
    c->noble.layers = 2;
}

static void make_noble_repository(Config *c, SizeId size) {
    make_noble(c, size);
    c->noble.recipe = RECIPE_REPOSITORY;
}

/* ---- other tasks than text ---- */

/* BERT's task in NOBLE's host. */
static void make_mlm(Config *c, SizeId size) {
    (void)size;
    c->mlp.activation = ACT_GELU;
    c->causal = false;
    c->task = TASK_FILL_MASK;
    c->mask_token_id = c->vocab_size - 1;
}

static void make_mlm_noble(Config *c, SizeId size) {
    make_noble(c, size);
    c->tie_embeddings = true;
    make_mlm(c, size);
}

/* A vision transformer for images of 28 x 28 with ten classes, as MNIST's: 16 patches behind the class row. */
static void make_vit(Config *c, SizeId size) {
    if (size == NANO) c->n_layers = 4;
    c->task = TASK_IMAGE_CLASSIFICATION;
    c->n_labels = 10;
    c->pool = POOL_FIRST;
    c->input.kind = INPUT_PATCHES;
    c->input.height = c->input.width = 28;
    c->input.channels = 1;
    c->input.patch = 7;
    c->max_positions = 17;
    c->vocab_size = 0;
    c->bos_token_id = c->eos_token_id = -1;
    c->bias = BIAS_ALL;
    c->causal = false;
}

static void make_vit_noble(Config *c, SizeId size) {
    make_vit(c, size);
    c->noble.rank = size == NANO ? 4 : size == TINY ? 16 : 64;
    c->noble.layers = 2;
}

/* Images of 14 x 14 pixels in 16 shades of grey, each behind the token of one of ten classes. */
static void make_image_tokens(Config *c, SizeId size) {
    make_noble_host(c, size);
    c->vocab_size = 16 + 10;
    c->position = POSITION_ROPE2D;
    c->input.height = c->input.width = 14;
    c->max_positions = 1 + 14 * 14;
    c->bos_token_id = c->eos_token_id = -1;
}

static void make_image_tokens_noble(Config *c, SizeId size) {
    make_noble(c, size);
    make_image_tokens(c, size);
}

static const struct {
    const char *name, *kind;
    bool llama;
    void (*make)(Config *c, SizeId size); /* what sets the member apart from its skeleton; NULL: nothing */
} members[] = {
    {"mha", "mha", false, NULL},
    {"symmetric", "symmetric", false, NULL},
    {"noiseformer-v1", "symmetric", false, make_noise_layer},
    {"noiseformer-v2", "symmetric", false, make_noise_head},
    {"noiseformer-key", "symmetric", false, make_noise_key},
    {"noiseformer-seq", "symmetric", false, make_noise_sequence},
    {"noiseformer-code", "symmetric", false, make_noise_code},
    {"pairwise", "pairwise", false, NULL},
    {"gqa", "gqa", true, make_gqa},
    {"mqa", "gqa", true, make_mqa},
    {"mla", "mla", true, make_mla},
    {"tpa", "tpa", true, make_tpa},
    {"differential", "differential", true, make_differential},
    {"lecture", "lecture", false, make_lecture},
    {"sas", "mha", true, make_sas},
    {"noble", "mha", true, make_noble},
    {"noble-host", "mha", true, make_noble_host},
    {"noble-repository", "mha", true, make_noble_repository},
    {"mlm", "mha", true, make_mlm},
    {"mlm-noble", "mha", true, make_mlm_noble},
    {"vit", "mha", false, make_vit},
    {"vit-noble", "mha", false, make_vit_noble},
    {"image-tokens", "mha", true, make_image_tokens},
    {"image-tokens-noble", "mha", true, make_image_tokens_noble},
};

static Config skeleton(SizeId i, bool llama) {
    Config c = {
        .vocab_size = sizes[i].vocab,
        .hidden_size = sizes[i].hidden,
        .n_layers = sizes[i].layers,
        .n_heads = sizes[i].heads,
        .n_kv_heads = sizes[i].heads,
        .head_dim = sizes[i].head_dim,
        .max_positions = sizes[i].positions,
        .norm = llama ? NORM_RMS : NORM_LAYER,
        .norm_eps = llama ? 1e-6f : 1e-5f,
        .position = llama ? POSITION_ROPE : POSITION_LEARNED,
        .rope_theta = 10000,
        .tie_embeddings = true,
        .causal = true,
        .torch_dtype = "float32",
    };
    c.mlp.activation = llama ? ACT_SILU : ACT_GELU;
    c.mlp.gated = llama;
    c.mlp.width = llama ? sizes[i].gated_width : sizes[i].width;
    return c;
}

/* The size that follows `member` in name, N_SIZES when there is none. */
static SizeId size_after(const char *name, const char *member) {
    size_t n = strlen(member);
    if (strncmp(name, member, n)) return N_SIZES;
    if (name[n] == 0) return TINY;
    SizeId i = NANO;
    while (i < N_SIZES && (name[n] != '-' || strcmp(name + n + 1, sizes[i].name))) i++;
    return i;
}

/* The preset that a mistyped name is nearest to, if any is near. */
static bool meant(const char *name, char out[PRESET_NAME]) {
    const char *best = NULL;
    int nearest = 4;
    char one[PRESET_NAME];
    out[0] = 0;
    for (int i = 0; preset_name(i, one); i++) {
        best = NULL;
        guess(name, strlen(name), one, &best, &nearest);
        if (best) snprintf(out, PRESET_NAME, "%s", one);
    }
    return out[0];
}

static int refuse(const char *name, Err *err) {
    char text[900] = "";
    size_t n = 0;
    for (size_t m = 0; m < COUNTOF(members); m++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", members[m].name);
    n += (size_t)snprintf(text + n, sizeof text - n, "; sizes:");
    for (int i = 0; i < N_SIZES; i++) n += (size_t)snprintf(text + n, sizeof text - n, " %s", sizes[i].name);
    n += (size_t)snprintf(text + n, sizeof text - n, "; on word vectors:");
    for (int i = 0; preset_words_name(i); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", preset_words_name(i));
    BUG_ON(n >= sizeof text);
    char nearest[PRESET_NAME];
    if (meant(name, nearest)) return err_set(err, "no preset %.60s; did you mean %s?", name, nearest);
    return err_set(err, "no preset %.60s: a preset is <member>-<size>; members:%s", name, text);
}

int preset_config(Config *c, const char *name, Err *err) {
    if (preset_words(c, name)) return config_check(c, err);
    for (size_t m = 0; m < COUNTOF(members); m++) {
        SizeId size = size_after(name, members[m].name);
        if (size == N_SIZES) continue;
        *c = skeleton(size, members[m].llama);
        c->attention.kind = attention_kind_find(members[m].kind);
        if (members[m].make) members[m].make(c, size);
        return config_check(c, err);
    }
    return refuse(name, err);
}

bool preset_name(int i, char out[PRESET_NAME]) {
    size_t member = (size_t)i % COUNTOF(members), size = (size_t)i / COUNTOF(members);
    if (size >= N_SIZES) return false;
    snprintf(out, PRESET_NAME, "%s-%s", members[member].name, sizes[size].name);
    return true;
}

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

bool preset_is(const char *name) { return !is_file(name) && !strchr(name, '/'); }

int preset_or_file(Config *c, Labels *labels, const char *name, Err *err) {
    return preset_is(name) ? preset_config(c, name, err) : config_json_load(c, labels, name, err);
}
