/* What a kind may change besides its projections, shown by kinds of this file that are in no registry. */
#include "base/err.h"
#include "base/random.h"
#include "model/attention/attention_spec.h"
#include "tests/support/models.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 560, WINDOW = 7 };

/* A window, a bias of the distance and a cap, all at once: s' = 4 tanh(s / 4) - (i - j) / 8 within WINDOW keys. */
static void window_scores(const ScoreRow *row, float *s, float *slope) {
    for (int j = 0; j < row->n; j++) {
        int distance = row->i - (row->first + j);
        float t = tanhf(s[j] / 4);
        s[j] = distance < WINDOW ? 4 * t - (float)distance / 8 : -INFINITY;
        if (slope) slope[j] = 1 - t * t;
    }
}

static const NoiseKey KEY = {.seed = 5, .scale = 1};

typedef struct Text {
    int tokens[LENGTH];
} Text;

static double loss_of(const Model *m, void *context, bool backward) {
    enum { N = 70 };
    const Text *text = context;
    Segment seg = {.n = N, .noise = KEY};
    Batch batch = {.tokens = text->tokens, .n = N, .segments = &seg, .n_segments = 1};
    Tape tape;
    tape_init(&tape, true);
    Mat *loss = model_loss(&tape, model_forward(m, &tape, &batch, NULL), text->tokens + 1, NULL, 1e-3f, NULL);
    if (backward) tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

static void each_window(void (*check)(TestModel *t, const Text *text, const char *name)) {
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t v = 0; v < COUNTOF(test_variants); v += COUNTOF(test_variants) - 1) { /* plain and all */
            AttentionKind kind = *attention_kinds[k];
            Config c = test_variant(attention_kinds[k], test_variants[v]);
            Text text;
            TestModel t;
            Draws d = draws_open(8, DRAW_TEST, 1);
            kind.scores = window_scores;
            c.attention.kind = &kind;
            c.max_positions = LENGTH;
            c.n_layers = 1;
            for (int i = 0; i < LENGTH; i++) text.tokens[i] = (int)draw_below(&d, (uint64_t)c.vocab_size);
            if (test_model_init(&t, &c, 23)) check(&t, &text, test_text("%s %s", kind.name, test_variants[v]));
            test_model_free(&t);
        }
}

static void check_gradient(TestModel *t, const Text *text, const char *name) {
    Text own = *text;
    test_gradient(t, name, loss_of, &own);
}

TEST(kind_scores_gradients) { each_window(check_gradient); }

/* Chunks of the serving body that are masked as a whole, before the window and behind it, change nothing. */
static void check_window(TestModel *t, const Text *text, const char *name) {
    static const int chunks[3] = {300, 1, 64};
    int whole = LENGTH, vocab = t->model.cfg.vocab_size;
    size_t n = (size_t)LENGTH * (size_t)vocab;
    Text changed = *text;
    float *logits = test_serve(&t->model, text->tokens, LENGTH, KEY, &whole, 1);
    float *chunked = test_serve(&t->model, text->tokens, LENGTH, KEY, chunks, 3);
    CHECK_MSG(!memcmp(logits, chunked, n * sizeof(float)), "%s: chunks change the logits", name);
    changed.tokens[100] = (changed.tokens[100] + 1) % vocab;
    float *other = test_serve(&t->model, changed.tokens, LENGTH, KEY, &whole, 1);
    for (int i = 0; i < LENGTH; i++) {
        bool same = !memcmp(logits + i * vocab, other + i * vocab, (size_t)vocab * sizeof(float));
        bool sees = i >= 100 && i < 100 + WINDOW;
        CHECK_MSG(same != sees, "%s: row %d %s token 100", name, i, sees ? "does not see" : "sees");
    }
    free(logits);
    free(chunked);
    free(other);
}

TEST(kind_scores_window) { each_window(check_window); }
