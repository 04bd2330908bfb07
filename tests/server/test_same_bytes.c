/* The same bytes on unlike machines: answers of small checkpoints of the whole family, one line each in
 * tests/golden_answers.txt, checked on every kernel level that this machine has. `make test-arm` runs it on an ARM64
 * build in qemu.
 * The level blas has bytes of its own: its answers are compared with ref's, number by number.
 * LEVELS="ref avx2": on these only. GOLDEN_ANSWERS=write: writes the file, by the first level. A golden answer changes
 * only where an equation or its arithmetic does; another version of the program then says so in the fingerprint. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "model/kind.h"
#include "model/kernels/kernels.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Member {
    const char *name, *kind;
    Dtype dtype;
    void (*change)(Config *c);
} Member;

static void noisy(Config *c) { c->noise.scope = NOISE_HEAD; }

static void rope(Config *c) {
    c->position = POSITION_ROPE;
    c->norm = NORM_RMS;
    c->mlp.gated = true;
    c->mlp.activation = ACT_SILU;
}

static void noisy_sas(Config *c) {
    noisy(c);
    c->sas.heads = 4;
    c->sas.head_dim = 48;
    c->sas.kernel = 3;
    c->sas.relu = true;
}

static void llama(Config *c) {
    rope(c);
    c->rope_theta = 500000;
    c->rope_scaling.kind = ROPE_LLAMA3;
    c->rope_scaling.factor = 8;
    c->rope_scaling.low_freq_factor = 1;
    c->rope_scaling.high_freq_factor = 4;
    c->rope_scaling.original_positions = 64;
    c->n_kv_heads = 1;
    c->sliding_window = 48;
}

static void mixture(Config *c) {
    c->noise.scope = NOISE_LAYER;
    c->noise.density = DENSITY_MIXTURE;
    c->noise.components = 5;
    c->mlp.activation = ACT_GELU_TANH;
}

static void conditioned(Config *c) {
    noisy(c);
    c->noise.condition_dim = 8;
}

static void noisy_keys(Config *c) {
    rope(c);
    noisy(c);
    c->noise.span = SPAN_KEY;
}

static void noisy_rope(Config *c) {
    rope(c);
    noisy(c);
}

static void noisy_sequence(Config *c) {
    noisy(c);
    c->noise.span = SPAN_SEQUENCE;
    c->position = POSITION_SINUSOIDAL;
}

static void component_on_rows(Config *c) {
    rope(c);
    c->noise.scope = NOISE_LAYER;
    c->noise.span = SPAN_SEQUENCE;
    c->noise.density = DENSITY_MIXTURE;
    c->noise.components = 4;
    c->noise.site = SITE_RESIDUAL;
}

static void noble(Config *c) {
    rope(c);
    c->noble.rank = 8;
    c->noble.layers = 2;
}

static const Member members[] = {
    {"symmetric-noise-f32", "symmetric", DTYPE_F32, noisy},
    {"symmetric-noise-sas-bf16", "symmetric", DTYPE_BF16, noisy_sas},
    {"symmetric-conditioned-bf16", "symmetric", DTYPE_BF16, conditioned},
    {"symmetric-sequence-noise-int8", "symmetric", DTYPE_I8, noisy_sequence},
    {"mha-mixture-f32", "mha", DTYPE_F32, mixture},
    {"gqa-llama-bf16", "gqa", DTYPE_BF16, llama},
    {"gqa-noise-int8", "gqa", DTYPE_I8, noisy_rope},
    {"differential-key-noise-bf16", "differential", DTYPE_BF16, noisy_keys},
    {"mla-noise-f32", "mla", DTYPE_F32, noisy_rope},
    {"tpa-noise-bf16", "tpa", DTYPE_BF16, noisy_rope},
    {"pairwise-noble-f32", "pairwise", DTYPE_F32, noble},
    {"symmetric-component-int8", "symmetric", DTYPE_I8, component_on_rows},
    {"gqa-noise-int4", "gqa", DTYPE_I4, noisy_rope},
};

/* Dimensions that int8 can cut into groups. */
static Config config_of(const Member *m) {
    Config c = {.vocab_size = 320,
                .hidden_size = 64,
                .n_layers = 2,
                .n_heads = 2,
                .n_kv_heads = 2,
                .head_dim = 32,
                .max_positions = 512,
                .norm_eps = 1e-5f,
                .position = POSITION_LEARNED,
                .rope_theta = 10000,
                .bias = true,
                .tie_embeddings = true,
                .causal = true,
                .mlp = {.activation = ACT_GELU, .width = 128},
                .attention = {.kind = attention_kind_find(m->kind)},
                .bos_token_id = 0,
                .eos_token_id = 0,
                .torch_dtype = "float32"};
    for (int k = 0; k < ATTENTION_VALUES && c.attention.kind->keys[k]; k++) c.attention.values[k] = 32;
    m->change(&c);
    return c;
}

#define LONG_TEXT                                                                                                      \
    "\"The river runs below the mill, and the miller counts the stones. Every stone was a word once, every word a "    \
    "stone; the river says them over and over until they are round. He said: again, she said: again, and so the "      \
    "wheel went round again and again. The miller writes them down in a book.\""

static const char *const requests[] = {
    "\"prompt\":\"The river\",\"max_tokens\":16,\"seed\":1,\"temperature\":0,\"logprobs\":5,\"noise_seed\":1",
    "\"prompt\":\"The mill\",\"max_tokens\":24,\"seed\":1,\"noise_seed\":2,\"logprobs\":2",
    "\"prompt\":\"He said\",\"max_tokens\":16,\"seed\":3,\"temperature\":0.8,\"top_p\":0.9,\"logprobs\":0",
    "\"prompt\":\"again\",\"max_tokens\":16,\"seed\":4,\"top_k\":5,\"noise_scale\":2,\"logprobs\":0",
    "\"prompt\":\"A word\",\"max_tokens\":16,\"seed\":5,\"typical_p\":0.7,\"min_p\":0.01",
    "\"prompt\":\"Stones\",\"max_tokens\":8,\"seed\":6,\"n\":3,\"logprobs\":3",
    "\"prompt\":" LONG_TEXT ",\"max_tokens\":0,\"seed\":2,\"echo\":true,\"logprobs\":2,\"noise_seed\":9",
    "\"prompt\":\"The book\",\"max_tokens\":16,\"seed\":7,\"temperature\":1.5,\"repetition_penalty\":1.2,"
    "\"frequency_penalty\":0.5,\"presence_penalty\":0.3,\"logit_bias\":{\"5\":3,\"6\":-2.5}",
    "\"prompt\":[5,9,250,33,7],\"max_tokens\":16,\"seed\":8,\"noise_scale\":0.5,\"prompt_logprobs\":1",
    "\"prompt\":" LONG_TEXT ",\"max_tokens\":12,\"seed\":10,\"noise_seed\":11,\"logprobs\":1",
};

/* Texts to classify, which brings probabilities, their spread and entropies. */
static const char *const classified[] = {
    "\"input\":\"The river runs\",\"noise_samples\":8,\"noise_seed\":1",
    "\"input\":[\"The mill\",\"He said: again\"],\"noise_seed\":2",
    "\"input\":" LONG_TEXT ",\"noise_samples\":5,\"noise_seed\":3",
    "\"input\":\"round and round\",\"noise_samples\":3,\"noise_seed\":4,\"noise_scale\":2",
};

/* ---- the file: member, number of the request, the beginning of the answer's SHA-256 ---- */

enum { HASH = 16, LINE = 64 };
static const char FILE_NAME[] = "tests/golden_answers.txt";

typedef struct Golden {
    char *text;       /* as it is in the file; NULL: none yet */
    Buffer now;       /* the same of this run */
    cJSON *reference; /* the answers of the first level, in order */
    int asked;        /* on this level */
    int different;    /* answers */
} Golden;

static const char *const by_nature[] = {"id", "created", "model", "system_fingerprint"};

/* Null where nobody asked, which the answers of the file do not say yet. */
static void drop_unasked(cJSON *choices) {
    cJSON *choice;
    cJSON_ArrayForEach(choice, choices) if (cJSON_IsNull(json_at(choice, "prompt_logprobs")))
        cJSON_DeleteItemFromObjectCaseSensitive(choice, "prompt_logprobs");
}

/* What there is of the answer, but for its id and date and what names the checkpoint. */
static void hash_answer(const Answer *a, char hex[65]) {
    cJSON *whole = cJSON_Duplicate(a->json, true);
    drop_unasked(cJSON_GetObjectItemCaseSensitive(whole, "choices"));
    for (size_t i = 0; i < COUNTOF(by_nature); i++) cJSON_DeleteItemFromObjectCaseSensitive(whole, by_nature[i]);
    cJSON *usage = cJSON_GetObjectItemCaseSensitive(whole, "usage");
    if (usage) cJSON_DeleteItemFromObjectCaseSensitive(usage, "prompt_tokens_details");
    char *text = cJSON_PrintUnformatted(whole);
    Sha256 s;
    sha256_init(&s);
    sha256_add(&s, text, strlen(text));
    sha256_hex(&s, hex);
    free(text);
    cJSON_Delete(whole);
}

static void check_answer(Golden *g, const Answer *a, const char *member, int number, const char *level) {
    char hex[65], line[LINE];
    REQUIRE(a->json);
    hash_answer(a, hex);
    snprintf(line, sizeof line, "%s %d %.*s\n", member, number, HASH, hex);
    buffer_text(&g->now, line);
    if (!g->text || strstr(g->text, line)) return;
    g->different++;
    CHECK_MSG(g->different > 3, "%s, request %d on %s: another answer than in %s: %.600s", member, number, level,
              FILE_NAME, a->body);
}

static bool is_by_nature(const char *name) {
    for (size_t i = 0; name && i < COUNTOF(by_nature); i++)
        if (!strcmp(name, by_nature[i])) return true;
    return false;
}

/* Whether texts and structure are the same; *apart grows to what is between two numbers. */
static bool is_like(const cJSON *a, const cJSON *b, double *apart) {
    if (!a || !b || a->type != b->type) return false;
    if (cJSON_IsNumber(a)) *apart = MAX(*apart, fabs(a->valuedouble - b->valuedouble));
    if (cJSON_IsString(a) && strcmp(a->valuestring, b->valuestring)) return false;
    const cJSON *other = b->child;
    for (const cJSON *item = a->child; item; item = item->next, other = other->next)
        if (!other || (!is_by_nature(item->string) && !is_like(item, other, apart))) return false;
    return !other;
}

/* Sums in another order move activations and the cache by a rounding of bf16 here and there, but for models in f32, and
 * a draw that lies that near a boundary falls on its other side: then the text is another one. */
static void check_near(Golden *g, const Answer *a, const char *member, int number) {
    const double near = strstr(member, "int4") ? 0.2 : strstr(member, "bf16") || strstr(member, "int8") ? 0.1 : 1e-4;
    double apart = 0;
    const cJSON *reference = cJSON_GetArrayItem(g->reference, g->asked);
    if (!reference) return;
    if (is_like(reference, a->json, &apart))
        CHECK_MSG(apart <= near, "%s, request %d: %g from the reference", member, number, apart);
    else
        g->different++;
}

static void ask_all(Golden *g, const Daemon *d, const char *member, const char *path, const char *const *fields, int n,
                    const char *level) {
    for (int i = 0; i < n; i++) {
        const char *body = test_text("{%s}", fields[i]);
        Answer a = http_post(d, path, body);
        CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
        const char *fingerprint = a.json ? json_text(a.json, "system_fingerprint") : NULL;
        /* The arithmetic of amx and blas is another one, and says so. */
        if (fingerprint && strstr(fingerprint, "-blas-"))
            check_near(g, &a, member, i);
        else if (fingerprint && !strstr(fingerprint, "-amx"))
            check_answer(g, &a, member, i, level);
        if (!strcmp(level, "ref")) cJSON_AddItemToArray(g->reference, cJSON_Duplicate(a.json, true));
        g->asked++;
    }
}

/* Answers of blas, of 124, that draw another token where two are nearer to each other than a rounding: 2 on x86-64, 5
 * on ARM64. One that adds wrongly differs in nearly all of them, and those that agree are held to their numbers. */
enum { MOST_UNLIKE = 10 };

/* Its first steps are full ones, and take long in an emulator. */
static const char SMALL_STEPS[] = "--max-batch 4 --prefill-chunk 32";

static void run_level(Golden *g, const char *level, const char *const folders[]) {
    test_env("NOISED_ISA", level);
    for (size_t m = 0; m < COUNTOF(members); m++) {
        Daemon d;
        REQUIRE(daemon_start_at(&d, folders[m], SMALL_STEPS));
        ask_all(g, &d, members[m].name, "/v1/completions", requests, COUNTOF(requests), level);
        daemon_stop(&d);
    }
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, SMALL_STEPS));
    ask_all(g, &d, "classes", "/v1/classify", classified, COUNTOF(classified), level);
    daemon_stop(&d);
}

/* Those in LEVELS, for the daemon may run in an emulator; or those of this machine. A sanitizer sees the levels in the
 * tests of the kernels: here the best of those that have the same bytes is enough. */
static int levels_wanted(char *words, const char *out[KERNELS_LEVELS]) {
    const Kernels *all[KERNELS_LEVELS];
    int n = 0, available = kernels_available(all);
    for (char *w = words ? strtok(words, " ") : NULL; w && n < KERNELS_LEVELS; w = strtok(NULL, " ")) out[n++] = w;
    if (words) return n;
    while (SANITIZED && available > 1 && strcmp(all[available - 1]->arithmetic, "common")) available--;
    for (int l = SANITIZED ? available - 1 : 0; l < available; l++) out[n++] = all[l]->name;
    return n;
}

TEST(same_bytes_on_every_level) {
    const char *levels[KERNELS_LEVELS] = {NULL};
    const char *folders[COUNTOF(members)];
    char *words = getenv("LEVELS") ? xstrdup(getenv("LEVELS")) : NULL;
    bool write = getenv("GOLDEN_ANSWERS") && !strcmp(getenv("GOLDEN_ANSWERS"), "write");
    Golden g = {.text = write ? NULL : test_read_file(FILE_NAME, NULL), .reference = cJSON_CreateArray()};
    int n = levels_wanted(words, levels);
    if (words) test_takes_long(); /* in an emulator, then */
    CHECK_MSG(write || g.text, "%s cannot be read", FILE_NAME);
    for (size_t m = 0; m < COUNTOF(members); m++) {
        Config c = config_of(&members[m]);
        folders[m] = test_dir();
        CHECK(test_checkpoint_write_as(folders[m], &c, members[m].dtype, 11 + m));
    }
    for (int l = 0; l < n && !(write && g.now.n); l++) {
        bool own = !strcmp(levels[l], "blas");
        if (!own) g.now.n = 0;
        g.asked = g.different = 0;
        run_level(&g, levels[l], folders);
        CHECK_MSG(g.different <= (own ? MOST_UNLIKE : 0), "%s: %d answers differ", levels[l], g.different);
    }
    CHECK_MSG(g.now.n, "no level but blas in LEVELS=%s", getenv("LEVELS"));
    if (write) test_write_file(FILE_NAME, g.now.data, g.now.n);
    free(words);
    buffer_free(&g.now);
    cJSON_Delete(g.reference);
    free(g.text);
}
