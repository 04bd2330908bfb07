/* What networks of other tasks are built of, by itself: pooling, patches of an image, dropout. */
#include "base/err.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "model/transformer.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is behind the end of a sequence is another's: the mean, the first and the last row are of its own rows. */
TEST(task_pools) {
    static const float rows[6][2] = {{1, 8}, {2, 6}, {6, 1}, {5, 5}, {7, 1}, {0, 3}};
    static const float wanted[3][2][2] = {
        [POOL_LAST] = {{6, 1}, {0, 3}}, [POOL_MEAN] = {{3, 5}, {4, 3}}, [POOL_FIRST] = {{1, 8}, {5, 5}}};
    const Segment segments[2] = {{.n = 3}, {.row0 = 3, .n = 3}};
    const Batch batch = {.n = 6, .segments = segments, .n_segments = 2};
    for (Pool pool = POOL_LAST; pool <= POOL_FIRST; pool++) {
        Model m = {.cfg = {.task = TASK_TEXT_CLASSIFICATION, .pool = pool}};
        Tape tape;
        tape_init(&tape, false);
        Mat *x = tape_mat(&tape, 6, 2);
        memcpy(x->x, rows, sizeof rows);
        const Mat *y = model_pool(&m, &tape, &batch, x);
        CHECK(y->n == 2 && y->d == 2 && !memcmp(y->x, wanted[pool], sizeof wanted[pool]));
        tape_free(&tape);
    }
}

/* Patches in the order of the image, channel behind channel, and where rope2d finds each. */
TEST(task_patches) {
    Config c = {.input = {.kind = INPUT_PATCHES, .height = 4, .width = 6, .channels = 2, .patch = 2},
                .pool = POOL_FIRST};
    float image[2 * 4 * 6];
    int place[2];
    Tape tape;
    for (int i = 0; i < 48; i++) image[i] = (float)i;
    tape_init(&tape, false);
    const Mat *y = op_patches(&tape, image, 1, &c);
    const float fifth[8] = {14, 15, 20, 21, 38, 39, 44, 45}; /* second line, second column */
    CHECK(y->n == 6 && y->d == 8 && !memcmp(y->x + 4 * 8, fifth, sizeof fifth));
    tape_free(&tape);
    CHECK(config_image_rows(&c) == 7);
    config_place(&c, 0, place);
    CHECK(place[0] == 0 && place[1] == 0);
    config_place(&c, 1 + 4, place);
    CHECK(place[0] == 1 && place[1] == 1);
    c.pool = POOL_MEAN;
    config_place(&c, 4, place);
    CHECK(config_image_rows(&c) == 6 && place[0] == 1 && place[1] == 1);
}

/* About as many elements are dropped as asked for, others at another place, step or seed; the mean stays. */
TEST(task_dropout_draws) {
    enum { N = 64, D = 102 };
    const NoiseKey keys[4] = {
        {.seed = 1, .stream = 1}, {.seed = 1, .stream = 1}, {.seed = 1, .stream = 2}, {.seed = 2, .stream = 1}};
    const int places[4] = {1, 2, 1, 1};
    Tape tape;
    tape_init(&tape, true);
    Mat *x = tape_mat(&tape, N, D), *y[4];
    for (int i = 0; i < N * D; i++) x->x[i] = 1;
    for (int k = 0; k < 4; k++) y[k] = op_dropout(&tape, x, 0.25f, places[k], &keys[k]);
    for (int k = 0; k < 4; k++) {
        int dropped = 0, agree = 0;
        for (int i = 0; i < N * D; i++) {
            CHECK(y[k]->x[i] == 0 || fabsf(y[k]->x[i] - 4 / 3.0f) < 1e-6f);
            dropped += y[k]->x[i] == 0;
            agree += (y[k]->x[i] == 0) == (y[0]->x[i] == 0);
        }
        CHECK_MSG(abs(dropped - N * D / 4) < 150, "%d of %d dropped", dropped, N * D);
        CHECK_MSG(k == 0 || abs(agree - N * D * 10 / 16) < 250, "%d: %d of %d agree", k, agree, N * D);
    }
    CHECK(!memcmp(op_dropout(&tape, x, 0.25f, 1, &keys[0])->x, y[0]->x, N * D * sizeof(float)));
    tape.recording = false;
    CHECK(op_dropout(&tape, x, 0.25f, 1, &keys[0]) == x);
    tape_free(&tape);
}
