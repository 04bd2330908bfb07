/* Images: mixing them, and a network that learns which half is bright. */
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/tasks/mixing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, N = 6 };

static void fill(TaskBatch *b) {
    *b = (TaskBatch){.images = xcalloc(N * PIXELS, sizeof(float)), .n_units = N};
    for (int i = 0; i < N * PIXELS; i++) b->images[i] = (float)(i / PIXELS); /* an image is its number */
}

static const Config image = {.input = {.height = SIDE, .width = SIDE, .channels = 1, .patch = 4}};

TEST(mixing_by_mixup) {
    Mixing c = {.mixup = 0.8};
    TaskBatch a, b;
    fill(&a);
    fill(&b);
    double share = mix_images(&c, &a, &image, 7, 3), again = mix_images(&c, &b, &image, 7, 3);
    CHECK(share > 0 && share < 1 && share == again);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < PIXELS; k++)
            CHECK(fabs(a.images[i * PIXELS + k] - (share * i + (1 - share) * (N - 1 - i))) < 1e-5);
    CHECK(!memcmp(a.images, b.images, N * PIXELS * sizeof(float)));
    CHECK(mix_images(&c, &b, &image, 7, 4) != share && mix_images(&c, &b, &image, 8, 3) != share);
    task_batch_free(&a);
    task_batch_free(&b);
}

TEST(mixing_by_cutmix) {
    Mixing c = {.cutmix = 1};
    int cut = 0;
    for (int step = 0; step < 40; step++) {
        TaskBatch b;
        fill(&b);
        double share = mix_images(&c, &b, &image, 1, step);
        for (int i = 0; i < N; i++) {
            int own = 0, other = 0;
            for (int k = 0; k < PIXELS; k++) {
                own += b.images[i * PIXELS + k] == (float)i;
                other += b.images[i * PIXELS + k] == (float)(N - 1 - i);
            }
            CHECK(own + other == PIXELS && fabs(share - (double)own / PIXELS) < 1e-12);
        }
        cut += share < 1;
        task_batch_free(&b);
    }
    CHECK(cut > 20);
    TaskBatch b;
    fill(&b);
    CHECK(mix_images(&(Mixing){0}, &b, &image, 1, 0) == 1 && b.images[PIXELS] == 1);
    task_batch_free(&b);
}

/* Both switched on: a rectangle leaves whole numbers, a sum does not. */
TEST(mixing_by_a_coin) {
    Mixing c = {.mixup = 1, .cutmix = 1};
    int cut = 0;
    for (int step = 0; step < 200; step++) {
        TaskBatch b;
        fill(&b);
        mix_images(&c, &b, &image, 5, step);
        bool whole = true;
        for (int k = 0; k < N * PIXELS; k++) whole &= b.images[k] == rintf(b.images[k]);
        cut += whole;
        task_batch_free(&b);
    }
    CHECK_MSG(cut > 70 && cut < 130, "%d of 200", cut);
}

/* Of three images, the one in the middle being its own partner. */
TEST(mixing_of_labels) {
    const int targets[3] = {7, 8, 9};
    int row[6], target[6];
    float weight[6], of[3][10] = {{0}};
    mix_labels(0.75, 3, targets, row, target, weight);
    for (int i = 0; i < 6; i++) of[row[i]][target[i]] += weight[i];
    CHECK(of[0][7] == 0.75f && of[0][9] == 0.25f && of[1][8] == 1 && of[2][9] == 0.75f && of[2][7] == 0.25f);
}

TEST(mixing_draws_from_beta) {
    static const double as[] = {0.3, 0.8, 1, 4};
    for (size_t k = 0; k < COUNTOF(as); k++) {
        Draws d = draws_open(3, DRAW_TEST, (uint32_t)k);
        double sum = 0, squares = 0;
        enum { DRAWS = 20000 };
        for (int i = 0; i < DRAWS; i++) {
            double x = draw_beta(&d, as[k]);
            CHECK(x >= 0 && x <= 1);
            sum += x / DRAWS;
            squares += x * x / DRAWS;
        }
        /* mean 1/2, variance 1 / (4 (2 a + 1)) */
        double variance = squares - sum * sum, wanted = 1 / (4 * (2 * as[k] + 1));
        CHECK_MSG(fabs(sum - 0.5) < 0.012 && fabs(variance / wanted - 1) < 0.04,
                  "Beta(%g): mean %g, variance %g, not %g", as[k], sum, variance, wanted);
    }
}

static const char *put_images(void) {
    enum { IMAGES = 40 };
    static const char config[] =
        "{\"model_type\":\"noised\",\"vocab_size\":0,\"hidden_size\":16,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":8,\"max_position_embeddings\":5,"
        "\"norm\":\"layernorm\",\"norm_eps\":1e-5,\"position\":\"learned\",\"rope_theta\":10000,\"bias\":true,"
        "\"tie_word_embeddings\":false,\"mlp\":{\"activation\":\"gelu\",\"gated\":false,\"intermediate_size\":32},"
        "\"attention\":{\"kind\":\"mha\"},\"causal\":false,\"task\":\"image-classification\",\"pool\":\"first\","
        "\"id2label\":{\"0\":\"0\",\"1\":\"1\"},\"input\":{\"kind\":\"patches\",\"image_size\":[8,8],\"channels\":1,"
        "\"patch_size\":4},\"torch_dtype\":\"float32\"}";
    const char *dir = test_dir();
    uint8_t images[16 + IMAGES * PIXELS] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    uint8_t labels[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    Draws d = draws_open(1, DRAW_TEST, 0);
    for (int i = 0; i < IMAGES; i++) {
        labels[8 + i] = (uint8_t)(i % 2);
        for (int k = 0; k < PIXELS; k++)
            images[16 + i * PIXELS + k] = (uint8_t)(draw_below(&d, 120) + (k % SIDE / (SIDE / 2) == i % 2 ? 130 : 0));
    }
    test_write_text(dir, "config.json", config);
    test_write_file(test_text("%s/train-images-idx3-ubyte", dir), images, sizeof images);
    test_write_file(test_text("%s/train-labels-idx1-ubyte", dir), labels, sizeof labels);
    return dir;
}

TEST(finetune_learns_images) {
    static const struct {
        const char *options, *says;
        int status;
    } cases[] = {
        {"--epochs 30", "dev: accuracy 1.0000", 0},
        {"--epochs 3 --mixup 0.8 --cutmix 1 --warmup-epochs 1 --schedule cosine", "epoch 3 of 3", 0},
        {"--epochs 30 --pool mean --optimizer sgd --lr 0.1 --momentum 0.5 --perturb layer-before --perturb-sigma 0.001",
         "dev: accuracy 1.0000", 0},
        {"--pool mean --epochs 1", "done", 0},
    };
    const char *dir = put_images();
    char args[1024];
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        snprintf(args, sizeof args,
                 "finetune --config %s/config.json --train %s/train-images-idx3-ubyte --dev %s/train-images-idx3-ubyte "
                 "--batch 8 --out %s/run%zu %s%s",
                 dir, dir, dir, dir, i, strstr(cases[i].options, "--lr") ? "" : "--lr 5e-3 ", cases[i].options);
        ChildResult r = trainer_run(args);
        CHECK_MSG(r.status == cases[i].status && strstr(r.output, cases[i].says), "%s: %d, %s", args, r.status,
                  r.output);
        free(r.output);
    }
    snprintf(args, sizeof args, "eval --model %s/run0 --task-data %s/train-images-idx3-ubyte", dir, dir);
    ChildResult r = trainer_run(args);
    CHECK_MSG(r.status == 0 && strstr(r.output, "\"accuracy\":1,"), "%s", r.output);
    free(r.output);
}

/* One image more than two micro-batches share evenly. */
TEST(mpi_finetune_images) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    static const char *const files[] = {"optimizer.safetensors", "model.safetensors", "log.jsonl", "results.json"};
    const char *dir = put_images();
    char args[1024], hash[2][65];
    for (int n = 0; n < 3; n += 2) {
        snprintf(args, sizeof args,
                 "finetune --config %s/config.json --train %s/train-images-idx3-ubyte --dev %s/train-images-idx3-ubyte "
                 "--epochs 2 --batch 3 --accumulate 3 --mixup 0.8 --cutmix 1 --threads 1 --out %s/np%d",
                 dir, dir, dir, dir, n);
        ChildResult r = n ? trainer_run_ranks(n, args) : trainer_run(args);
        CHECK_MSG(r.status == 0, "%d ranks: %d, %s", n, r.status, r.output);
        free(r.output);
    }
    for (size_t i = 0; i < COUNTOF(files); i++) {
        for (int k = 0; k < 2; k++) {
            trainer_hash_file(dir, test_text("np%d/%s", 2 * k, files[i]), hash[k]);
        }
        CHECK_MSG(!strcmp(hash[0], hash[1]), "%s differs", files[i]);
    }
}
