/* The presets: their list, and what the trainer expects each to take. */
#include "base/err.h"
#include "base/team.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/cost.h"
#include "trainer/ranks/ranks.h"
#include "weights/presets.h"
#include "weights/presets_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TEST(trainer_cli_lists_the_presets) {
    ChildResult r = trainer_run("presets");
    char name[PRESET_NAME];
    Config c;
    Err err;
    int n = 0;
    CHECK_MSG(r.status == 0, "%s", r.output);
    for (; preset_name(n, name); n++) {
        CHECK_MSG(strstr(r.output, test_text("\n%s ", name)), "%s is not in the list", name);
        CHECK_MSG(preset_config(&c, name, &err) == 0, "%s: %s", name, err.msg);
    }
    for (int i = 0; preset_words_name(i); i++) {
        CHECK_MSG(strstr(r.output, test_text("\n%s\n", preset_words_name(i))), "%s is not in the list",
                  preset_words_name(i));
    }
    CHECK(n > 50 && strstr(r.output, "\nnoiseformer-v2-tiny        4000032    256 "));
    CHECK(strstr(r.output, "-nano") < strstr(r.output, "-tiny") &&
          strstr(r.output, "-tiny") < strstr(r.output, "-124m"));
    for (const char *p = r.output; *p; p += strcspn(p, "\n") + 1)
        CHECK_MSG(strcspn(p, "\n") <= 80, "too wide: %.100s", p);
    free(r.output);
}

TEST(trainer_cli_lists_presets_by_word) {
    ChildResult r = trainer_run("presets noiseformer nano");
    CHECK_MSG(r.status == 0 && strstr(r.output, "\nnoiseformer-v2-nano ") && !strstr(r.output, "\nmha") &&
                  !strstr(r.output, "-tiny ") && !strstr(r.output, "finetune"),
              "%s", r.output);
    free(r.output);
    r = trainer_run("presets trec");
    CHECK_MSG(r.status == 0 && strstr(r.output, "\ntrec-base\n") && !strstr(r.output, "tokens/s"), "%s", r.output);
    free(r.output);
    r = trainer_run("presets noisformer");
    CHECK_MSG(r.status == 1 && strstr(r.output, "no preset has \"noisformer\" in its name"), "%s", r.output);
    free(r.output);
}

/* docs/scale.md, "Who holds what", and its example. */
TEST(trainer_memory_of_ranks_is_the_formula) {
    static const struct {
        int n;
        bool in_slices;
        double gib, copy, whole;
    } cases[] = {{1, false, 29.4, 17.4, 30.0}, {8, false, 9.2, 2.2, 9.8}, {8, true, 7.3, 2.2, 7.9}};
    const Ranks *before = ranks;
    int team = team_size();
    Config c;
    Model m;
    Err err;
    REQUIRE(preset_config(&c, "mha-1.5b", &err) == 0 && model_init(&m, &c, &err) == 0);
    double n = (double)params_count(&m.params), of[128] = {0}, largest = 0, products = 0, matrix = 0;
    for (const Param *p = m.params.params; p < m.params.params + m.params.n; p++) {
        double own = (double)weight_count(p->weight);
        of[p->bin] += own;
        products += p->product ? own : 0;
        matrix = fmax(matrix, p->product ? own : 0);
    }
    for (int l = 1; l <= c.n_layers; l++) largest = fmax(largest, of[l]);
    team_resize(1); /* each further member has activations of its own */
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        Ranks as = {.n = cases[k].n};
        ranks = &as;
        CostMemory need = cost_memory(&m, c.max_positions, true, cases[k].in_slices, 2);
        double told = (double)need.weights, whole = told + (double)need.activations, copy = (double)need.copy,
               bucket = 16384 * fmax(16, 4 * as.n);
        double formula = as.n == 1 ? 20 * n + 4 * (of[0] + largest)
                                   : 4 * n + 16 * n / as.n + 4 * (of[0] + 2 * largest) + 16 * bucket;
        if (cases[k].in_slices) formula += 4 * n / as.n - 2 * products + 4 * matrix;
        CHECK_MSG(fabs(told - formula) < 16, "%d ranks: %.0f bytes, by the formula %.0f", as.n, told, formula);
        CHECK_MSG(fabs(told / (1 << 30) - cases[k].gib) < 0.05, "%d ranks: %g GiB", as.n, told / (1 << 30));
        CHECK_MSG(fabs(whole / (1 << 30) - cases[k].whole) < 0.05, "%d ranks: %g GiB with the activations", as.n,
                  whole / (1 << 30));
        CHECK_MSG(fabs(copy - 12 * n / as.n) < 16, "%d ranks: %.0f bytes for a copy", as.n, copy);
        CHECK_MSG(fabs(copy / (1 << 30) - cases[k].copy) < 0.05, "%d ranks: %g GiB", as.n, copy / (1 << 30));
    }
    ranks = before;
    team_resize(team);
    model_free(&m);
}

/* What was measured on an idle Zen 5 (make bench-train). */
TEST(trainer_cost_follows_what_was_measured) {
    Config c;
    Model m;
    Err err;
    REQUIRE(preset_config(&c, "noiseformer-v2-tiny", &err) == 0 && model_init(&m, &c, &err) == 0);
    double speed = 1 / cost_seconds(&m, 430e9);
    CHECK_MSG(speed > 9300 / 1.3 && speed < 9300 * 1.3, "%g tokens/s", speed);
    CostMemory plain = cost_memory(&m, 2048, false, false, 2), recompute = cost_memory(&m, 2048, true, false, 2);
    size_t n = params_count(&m.params); /* 20 bytes each, and a layer's gradient; 16 of one */
    CHECK(plain.weights > 20 * n && plain.weights < 24 * n && recompute.weights == plain.weights);
    CHECK(recompute.activations < plain.activations / 2);
    CHECK(cost_memory(&m, 2048, false, false, 1).weights == 16 * n);
    model_free(&m);
    REQUIRE(preset_config(&c, "mha-124m", &err) == 0);
    c.max_positions = 256;
    REQUIRE(model_init(&m, &c, &err) == 0);
    speed = 1 / cost_seconds(&m, 430e9);
    CHECK_MSG(speed > 503 / 1.3 && speed < 503 * 1.3, "%g tokens/s", speed);
    model_free(&m);
}
