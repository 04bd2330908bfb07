/* What the tape says of layers that it has left is true: their weights, and those behind them, get no more gradient. */
#include "base/err.h"
#include "base/memory.h"
#include "model/network.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/config_json.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 9 };

typedef struct Watch {
    const TestModel *m;
    float *kept; /* the gradient when it was said to be done */
    size_t done; /* floats from here on are */
    int layer;   /* left last */
} Watch;

static void reached(void *context, int layer) {
    Watch *w = context;
    const ParamSet *ps = &w->m->model.params;
    size_t first = 0;
    for (int i = 0; ps->params[i].bin != layer + 1; i++) first += param_trained(&ps->params[i]);
    memcpy(w->kept + first, w->m->grad + first, (w->done - first) * sizeof *w->kept);
    CHECK(layer == w->layer - 1 && first < w->done);
    for (int i = 0; i < ps->n; i++) {
        const Param *p = &ps->params[i];
        for (size_t k = 0; p->bin && p->bin <= layer && k < param_trained(p); k++)
            CHECK_MSG(p->weight->grad[k] == 0, "%s has a gradient before its turn", p->name);
    }
    w->layer = layer;
    w->done = first;
}

static void check_config(const Config *c, const char *name, bool recompute) {
    int tokens[ROWS], targets[ROWS];
    TestModel m;
    if (!test_model_init(&m, c, 17)) return;
    Watch w = {.m = &m, .kept = xcalloc(m.count, sizeof *w.kept), .done = m.count};
    for (int i = 0; i < m.model.params.n; i++) w.layer = MAX(w.layer, m.model.params.params[i].bin);
    for (int i = 0; i < ROWS; i++) tokens[i] = (5 * i + 3) % c->vocab_size;
    Segment segment = {.n = ROWS, .noise = {.seed = 7, .stream = 1, .scale = 1.5f}};
    Batch batch = {.tokens = tokens, .n = ROWS, .segments = &segment, .n_segments = 1};
    Tape tape;
    tape_init(&tape, true);
    tape.recompute = recompute;
    tape.reached = reached;
    tape.reached_context = &w;
    Mat *logits = model_forward(&m.model, &tape, &batch, NULL);
    for (int i = 0; i < logits->n; i++) targets[i] = (5 * i + 3) % logits->d;
    tape_backward(&tape, model_loss(&tape, logits, targets, NULL, 1, NULL));
    CHECK_MSG(w.layer == 0, "%s: layer %d was left last", name, w.layer);
    CHECK_MSG(!memcmp(w.kept + w.done, m.grad + w.done, (m.count - w.done) * sizeof *w.kept),
              "%s: a gradient was not done", name);
    tape_free(&tape);
    free(w.kept);
    test_model_free(&m);
}

TEST(reached_layers_are_done) {
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t v = 0; v < COUNTOF(test_variants); v++)
            for (int recompute = 0; recompute <= !strcmp(test_variants[v], "all"); recompute++) {
                Config c = test_variant(attention_kinds[k], test_variants[v]);
                check_config(&c, test_text("%s, %s", attention_kinds[k]->name, test_variants[v]), recompute);
            }
}

/* All layers of these once had one place for their gradients (layer_gradients.h), for their tapes told of none. */
TEST(reached_layers_of_other_networks_are_done) {
    for (const Network *const *n = networks; *n; n++) {
        Config c;
        Err err;
        const char *path = test_text("tests/golden_networks/%s/config.json", (*n)->name);
        for (char *dash = strchr(path, '-'); dash; dash = strchr(dash, '-')) *dash = '_';
        REQUIRE(config_json_load(&c, NULL, path, &err) == 0);
        check_config(&c, (*n)->name, false);
    }
}
