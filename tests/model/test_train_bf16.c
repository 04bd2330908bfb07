/* Training as a whole: the same bits on any team in either precision, bf16 across a stop, and where bf16 ends up. */
#include "base/err.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void run(const char *dir, const char *name, const char *data, const char *config, const char *more) {
    trainer_done(test_text("pretrain --config %s --data %s --out %s/%s %s", config, data, dir, name, more));
}

static void hash_run(const char *dir, const char *name, char hash[65]) {
    const char *path = test_text("%s/%s", dir, name);
    trainer_hash_file(path, "optimizer.safetensors", hash);
}

/* Wide enough that every product is shared out. */
static void check_teams(const char *preset, const char *precision) {
    const char *dir = test_dir(), *text = trainer_text_file(20000);
    char first[65], hash[65], args[256];
    for (int threads = 1; threads <= 3; threads++) {
        snprintf(args, sizeof args,
                 "--vocab-size 300 --steps 3 --batch 4 --eval-every 0 --save-every 0 --precision %s --threads %d",
                 precision, threads);
        char name[8] = {(char)('0' + threads), 0};
        run(dir, name, text, preset, args);
        hash_run(dir, name, threads == 1 ? first : hash);
        CHECK_MSG(threads == 1 || !strcmp(first, hash), "%s, %s: %d threads change the weights", preset, precision,
                  threads);
    }
}

TEST(train_same_bits_on_any_team) {
    static const char *const presets[] = {"mha-nano", "noiseformer-v2-nano", "sas-nano", "noble-nano"};
    for (size_t i = 0; i < COUNTOF(presets); i++) {
        check_teams(presets[i], "f32");
        check_teams(presets[i], "bf16");
    }
}

TEST(train_bf16_resumes_in_the_same_bits) {
    static const char flags[] = "--steps 60 --batch 2 --warmup 4 --save-dtype bf16 --precision bf16 --eval-every 0";
    const char *dir = test_dir(), *text = trainer_text_file(8000), *config = trainer_config_file();
    char whole[65], parts[65];
    run(dir, "whole", text, config, flags);
    hash_run(dir, "whole", whole);
    ChildResult c = {0};
    for (int try = 0; try < TRIES && c.status == 0; try++) { /* it may be faster */
        test_remove(test_text("%s/parts", dir));
        free(c.output);
        c = trainer_run_stopped(test_text("pretrain --config %s --data %s --out %s/parts %s", config, text, dir, flags),
                                test_text("%s/parts/log.jsonl", dir), 600, SIGTERM);
    }
    CHECK_MSG(c.status == 128 + SIGTERM, "status %d: %s", c.status, c.output);
    free(c.output);
    c = trainer_run(test_text("pretrain --resume --out %s/parts --precision f32", dir));
    CHECK_MSG(kernels->train->pairs_pay
                  ? c.status == 1 && strstr(c.output, "--precision is f32, the run to be resumed has bf16") != NULL
                  : c.status == 0,
              "%s", c.output);
    free(c.output);
    trainer_done(test_text("pretrain --resume --out %s/parts", dir));
    hash_run(dir, "parts", parts);
    CHECK(!strcmp(whole, parts));
}

static double last_validation_loss(const char *dir, const char *name) {
    char *log = test_read_file(test_text("%s/%s/log.jsonl", dir, name), NULL), *at = log, *last = NULL;
    while (at && (at = strstr(at, "\"val_loss\":"))) last = at += strlen("\"val_loss\":");
    double loss = last ? strtod(last, NULL) : NAN;
    free(log);
    return loss;
}

TEST(train_bf16_ends_near_f32) {
    if (SANITIZED) SKIP("is about numbers, over 400 steps");
    static const char *const precisions[] = {"f32", "bf16"};
    const char *dir = test_dir(), *text = trainer_text_file(60000);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        run(dir, precisions[i], text, "noiseformer-v2-nano",
            test_text("--vocab-size 300 --steps 200 --batch 8 --lr 3e-3 --eval-every 0 --save-every 0 --precision %s",
                      precisions[i]));
        loss[i] = last_validation_loss(dir, precisions[i]);
    }
    CHECK_MSG((loss[0] != loss[1] || !kernels->train->pairs_pay) && fabs(loss[1] / loss[0] - 1) < 0.01,
              "f32 ends at %g, bf16 at %g", loss[0], loss[1]);
}

static char *state_of(const char *dir, const char *name) {
    return test_read_file(test_text("%s/%s/trainer_state.json", dir, name), NULL);
}

/* Where the processor is no faster at bf16 products a run is one in f32, says so, and stays one. */
TEST(train_bf16_is_f32_without_bf16_products) {
    static const char *const precisions[] = {"f32", "bf16"};
    const char *dir = test_dir(), *text = trainer_text_file(8000), *config = trainer_config_file();
    char args[2048], hash[2][65];
    test_env("NOISED_ISA", "ref");
    for (int i = 0; i < 2; i++) {
        snprintf(args, sizeof args,
                 "pretrain --config %s --data %s --out %s/%s --steps 2 --batch 2 --eval-every 0 --precision %s", config,
                 text, dir, precisions[i], precisions[i]);
        ChildResult c = trainer_run(args);
        CHECK_MSG(c.status == 0 &&
                      !strstr(c.output, "precision: f32, which is faster than bf16 on this processor (level ref)") ==
                          (i == 0),
                  "%s", c.output);
        free(c.output);
        hash_run(dir, precisions[i], hash[i]);
    }
    CHECK(!strcmp(hash[0], hash[1]));
    char *state = state_of(dir, "bf16");
    CHECK_MSG(strstr(state, "\"precision\":\t\"f32\""), "%s", state);
    free(state);
    snprintf(args, sizeof args, "pretrain --resume --out %s/bf16 --precision bf16", dir);
    trainer_done(args);
    test_env_back();
    ChildResult c = trainer_run(args);
    CHECK_MSG(kernels->train->pairs_pay ? c.status == 1 && strstr(c.output, "the run to be resumed has f32") != NULL
                                        : c.status == 0,
              "%s", c.output);
    free(c.output);
}
