/* Presets: their names, the papers' numbers of parameters, and the shapes and rates that follow from them. */
#include "base/err.h"
#include "model/shape.h"
#include "model/transformer.h"
#include "tests/support/test.h"
#include "weights/config_json.h"
#include "weights/presets.h"
#include "weights/presets_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(presets_refuse_other_names) {
    static const char *const names[] = {"",    "mha-",     "mha-small", "mhatiny", "noiseformer", "noiseformer-v3",
                                        "MHA", "mha-tiny-"};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Config c;
        Err err;
        CHECK_MSG(preset_config(&c, names[i], &err) == -1 && strstr(err.msg, "no preset"), "%s", names[i]);
    }
    Config c;
    Err err;
    CHECK(preset_config(&c, "lstm", &err) == -1 && strstr(err.msg, "; members: mha ") &&
          strstr(err.msg, "; sizes: nano ") && strstr(err.msg, " 1.5b; on word vectors: trec-base "));
    for (int i = 0; preset_words_name(i); i++) CHECK_MSG(strstr(err.msg, preset_words_name(i)), "%s", err.msg);
}

static size_t count_parameters(const Config *c) {
    Model m;
    Err err;
    if (model_init(&m, c, &err)) return test_fail(__FILE__, __LINE__, "%s", err.msg), 0;
    size_t n = params_count(&m.params);
    model_free(&m);
    return n;
}

static size_t count_preset(const char *name) {
    Config c;
    Err err;
    if (preset_config(&c, name, &err)) return test_fail(__FILE__, __LINE__, "%s", err.msg), 0;
    return count_parameters(&c);
}

/* The numbers of the papers. */
TEST(presets_parameter_counts) {
    size_t mha = count_preset("mha-124m");
    CHECK_MSG(mha - 1024 * 768 == 123587328, "%zu", mha);
    CHECK(mha - count_preset("symmetric-124m") == 7077888);
    CHECK(count_preset("noiseformer-v1-124m") - count_preset("symmetric-124m") == 12 * 2);
    CHECK(count_preset("noiseformer-v2-124m") - count_preset("symmetric-124m") == 12 * 2 * 12);
    CHECK(count_preset("pairwise-124m") - count_preset("symmetric-124m") == 12 * 12 * 64 * 64);
    CHECK(count_preset("gqa-124m") == count_preset("mqa-124m"));
    Config c; /* as many parameters as mha in the same skeleton, but for lambda and the gain of a layer's heads */
    REQUIRE(preset_config(&c, "differential-124m", NULL) == 0 && c.n_heads == 6);
    CHECK(count_preset("differential-124m") - 12 * (4 * 64 + 2 * 64) == count_preset("gqa-124m"));
    static const struct {
        const char *name;
        int kernel;
        size_t extra;
    } sas[] = {{"sas-124m", 1, 438048}, {"sas-124m", 3, 562464},  {"sas-124m", 5, 686880},  {"sas-124m", 7, 811296},
               {"sas-350m", 1, 974592}, {"sas-350m", 3, 1416960}, {"sas-350m", 5, 1859328}, {"sas-350m", 7, 2301696}};
    for (size_t i = 0; i < COUNTOF(sas); i++) {
        REQUIRE(preset_config(&c, sas[i].name, NULL) == 0);
        c.sas.kernel = sas[i].kernel;
        size_t with_sas = count_parameters(&c);
        c.sas.heads = 0;
        CHECK_MSG(with_sas - count_parameters(&c) == sas[i].extra, "%s, kernel %d", sas[i].name, sas[i].kernel);
    }
    /* Patches, class row, positions; four blocks of norms, attention and mlp with biases; norm and head. */
    CHECK(count_preset("vit-nano") ==
          64 * 49 + 64 + 64 + 17 * 64 + 4 * (256 + 4 * 65 * 64 + 65 * 256 + 257 * 64) + 128 + 650);
    /* NOBLE's two hosts and what a rank adds. */
    static const struct {
        const char *size;
        int rank;
        double host, percent;
    } noble[] = {{"250m", 64, 254.7e6, 5.70}, {"250m", 128, 254.7e6, 11.63}, {"250m", 256, 254.7e6, 24.19},
                 {"1.4b", 64, 1420e6, 4.04},  {"1.4b", 128, 1420e6, 8.17},   {"1.4b", 256, 1420e6, 16.68}};
    for (size_t i = 0; i < COUNTOF(noble); i++) {
        char name[32];
        snprintf(name, sizeof name, "noble-%s", noble[i].size);
        REQUIRE(preset_config(&c, name, NULL) == 0);
        c.noble.rank = noble[i].rank;
        double all = (double)count_parameters(&c);
        snprintf(name, sizeof name, "noble-host-%s", noble[i].size);
        double host = (double)count_preset(name), percent = 100 * (all - host) / host;
        CHECK_MSG(fabs(host / noble[i].host - 1) < 5e-4, "%s: %.0f", name, host);
        CHECK_MSG(fabs(percent - noble[i].percent) < 0.005, "%s, rank %d: + %.3f%%", name, noble[i].rank, percent);
    }
}

TEST(presets_heads_after_sas) {
    Config c;
    REQUIRE(preset_config(&c, "sas-124m", NULL) == 0);
    HeadShape base = config_base_heads(&c), h = config_heads(&c);
    CHECK(base.heads == 12 && base.kv_heads == 12 && base.k_dim == 64 && base.v_dim == 64);
    CHECK(h.heads == 36 && h.kv_heads == 36 && h.k_dim == 96 && h.v_dim == 64);
    CHECK(config_noise_heads(&c) == 0 && !config_noise_acts(&c, 1));
    c.noise.scope = NOISE_HEAD;
    CHECK(config_noise_heads(&c) == 36);
    c.noise.scope = NOISE_LAYER;
    CHECK(config_noise_heads(&c) == 1 && config_noise_acts(&c, 1) && !config_noise_acts(&c, 0));
    c.noise.density = DENSITY_MIXTURE;
    CHECK(config_noise_acts(&c, 0));
    REQUIRE(preset_config(&c, "mla-124m", NULL) == 0);
    h = config_heads(&c);
    CHECK(h.heads == 13 && h.kv_heads == 13 && h.k_dim == 96 && h.v_dim == 64);
    REQUIRE(preset_config(&c, "gqa-124m", NULL) == 0);
    h = config_heads(&c);
    CHECK(h.heads == 22 && h.kv_heads == 2);
}

/* The recipe is a matter of the start and the rates: the same tensors, other numbers, and it survives a round trip. */
TEST(presets_noble_recipes) {
    static const struct {
        const char *preset;
        double up, mix;
        float freq, phase;
    } cases[] = {{"noble-124m", 0.6, 0.45, 3, 5}, {"noble-repository-124m", 0.4, 0.5, 2, 4}};
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        Config c, again;
        Model m;
        REQUIRE(!preset_config(&c, cases[k].preset, NULL));
        char *text = config_json_print(&c, NULL);
        CHECK(!config_json_parse(&again, NULL, text, strlen(text), NULL) && again.noble.recipe == c.noble.recipe);
        free(text);
        REQUIRE(!model_init(&m, &c, NULL));
        const char *prefix = "model.layers.0.self_attn.q_proj.noble.";
        const struct {
            const char *name;
            double want;
        } rates[] = {{"up.weight", pow(12, cases[k].up)},
                     {"mix.weight", pow(12, cases[k].mix)},
                     {"freq_in", cases[k].freq},
                     {"phase_out", cases[k].phase},
                     {"down.weight", 1}};
        for (size_t i = 0; i < COUNTOF(rates); i++) {
            const char *name = test_text("%s%s", prefix, rates[i].name);
            const Param *p = params_find(&m.params, name);
            CHECK_MSG(p && fabs((double)p->lr_scale - rates[i].want) < 1e-5, "%s: rate of %s", cases[k].preset, name);
        }
        model_free(&m);
    }
}
