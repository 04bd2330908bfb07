/* What footprint.h foretells against what the arena really takes. */
#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/footprint.h"
#include "model/shape.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/presets.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 256, MARK = 0xA5 };

/* One block that is large enough, marked, so that what is written to can be told. */
static void open_arena(Arena *a, size_t bytes) {
    arena_free(a);
    arena_init(a, bytes);
    memset(arena_alloc(a, bytes), MARK, bytes);
}

static void open_tape(Tape *t, bool recording, size_t bytes) {
    tape_init(t, recording);
    open_arena(&t->arena, bytes);
    if (recording) open_arena(&t->gradients, bytes);
    tape_reset(t);
}

static size_t taken_of(Arena *a, size_t bytes) {
    const unsigned char *p = arena_alloc(a, bytes);
    while (bytes && p[bytes - 1] == MARK) bytes--;
    return bytes;
}

/* Whether that is so; on the last try it has to be. */
static bool compare(Tape *t, size_t bytes, size_t told, double most, bool last, const char *name, const char *what) {
    tape_reset(t);
    bool grown = t->arena.grown != 1 || (t->recording && t->gradients.grown != 1);
    size_t taken = taken_of(&t->arena, bytes) + (t->recording ? taken_of(&t->gradients, bytes) : 0);
    double ratio = (double)told / (double)taken;
    CHECK_MSG(!grown && ratio >= 1 && (ratio <= most || !last), "%s %s: told %zu, taken %zu", name, what, told, taken);
    tape_free(t);
    return ratio <= most;
}

static bool try_training(TestModel *m, const char *name, bool recompute, bool last) {
    int length = m->model.cfg.max_positions, tokens[ROWS] = {0};
    Segment segments[ROWS];
    size_t told = footprint_training(&m->model, ROWS, recompute), bytes = 2 * told;
    Tape t;
    open_tape(&t, true, bytes);
    t.recompute = recompute;
    Batch b = {.tokens = tokens, .n = ROWS, .segments = segments};
    for (int row = 0; row < ROWS; row += length)
        segments[b.n_segments++] = (Segment){.row0 = row, .n = MIN(length, ROWS - row), .noise = {.scale = 1}};
    Mat *logits = model_forward(&m->model, &t, &b, NULL);
    tape_backward(&t, model_loss(&t, logits, tokens, NULL, 1e-3f, NULL));
    return compare(&t, bytes, told, 1.5, last, name, recompute ? "recomputed" : "training");
}

/* On a busy machine one member of a team may do the work of all, and the others never touch their room. */
static void check_training(TestModel *m, const char *name, bool recompute) {
    int left = team_size() > 1 ? TRIES : 1;
    while (left-- && !try_training(m, name, recompute, left == 0)) continue;
}

static void check_serving(TestModel *m, const char *name) {
    const Config *c = &m->model.cfg;
    int tokens[ROWS] = {0}, want[ROWS], blocks[ROWS], length = c->max_positions;
    Segment segments[ROWS];
    KvCache kv;
    Tape t;
    for (int i = 0; i < ROWS; i++) want[i] = i, blocks[i] = i;
    if (kv_init(&kv, c, length / KV_BLOCK + 1, DTYPE_F32, config_kv_form(c), NULL)) return;
    size_t told = footprint_serving(&m->model, ROWS, ROWS / 2, config_kv_form(c)), bytes = 2 * told;
    open_tape(&t, false, bytes);
    Batch b = {.tokens = tokens, .n = ROWS, .segments = segments, .want = want, .n_want = ROWS / 2};
    for (int row = 0; row < ROWS; row += length)
        segments[b.n_segments++] =
            (Segment){.row0 = row, .n = MIN(length, ROWS - row), .noise = {.scale = 1}, .blocks = blocks};
    model_forward(&m->model, &t, &b, &kv);
    compare(&t, bytes, told, 4, true, name, "serving");
    kv_free(&kv);
}

static void check_config(const Config *c, const char *name) {
    static const int teams[] = {1, 2, 8}; /* whatever the machine has: every member has room of its own */
    int own = team_size();
    TestModel m;
    REQUIRE(test_model_init(&m, c, 1));
    for (size_t i = 0; i < COUNTOF(teams); i++) {
        team_resize(teams[i]);
        check_training(&m, name, false);
        check_training(&m, name, true);
        check_serving(&m, name);
    }
    team_resize(own);
    test_model_free(&m);
}

TEST(footprint_tells_what_is_taken) {
    static const char *const names[] = {
        "mha-nano", "noiseformer-v2-nano", "pairwise-nano", "gqa-nano", "mqa-nano", "mla-nano", "tpa-nano",
        "sas-nano", "noble-nano"};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Config c;
        REQUIRE(preset_config(&c, names[i], NULL) == 0);
        check_config(&c, names[i]);
    }
}

/* Whose queries and mixed rows are as wide as what is cached, for every head. */
TEST(footprint_of_wide_latents) {
    Config c;
    REQUIRE(preset_config(&c, "mla-nano", NULL) == 0);
    c.n_heads = c.n_kv_heads = 8;
    memcpy(c.attention.values, (int[]){64, 512, 16, 16, 16}, 5 * sizeof(int));
    CHECK(config_kv_form(&c) == KV_COMPACT);
    check_config(&c, "mla of wide latents");
}

/* Of whose block the gradients of one layer are most. */
TEST(footprint_of_wide_gates) {
    static const int ranks[] = {0, 8};
    for (size_t i = 0; i < COUNTOF(ranks); i++) {
        Config c;
        REQUIRE(preset_config(&c, "noble-nano", NULL) == 0);
        c.noble.rank = ranks[i];
        if (!ranks[i]) c.noble.layers = 0;
        c.mlp.gated = true;
        c.mlp.width = 32 * c.hidden_size;
        check_config(&c, ranks[i] ? "noble beside wide gates" : "wide gates");
    }
}
