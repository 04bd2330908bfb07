/* finetune goes on to the same bits in either precision, and not from what is another run's. */
#include "base/err.h"
#include "model/kernels/kernels.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/support/test.h"
#include "tests/trainer/test_finetune.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_resumes(const char *precision) {
    static const char plan[] =
        "finetune --init %%M --train %%D/train.jsonl --dev %%D/dev.jsonl --epochs 6 --batch 5 --lr "
        "3e-3 --seeds 2 --schedule linear --warmup-epochs 1 --out %%D/whole --precision %s";
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "log.jsonl", "config.json"};
    const char *dir = finetune_data();
    char sums[2][65];
    finetune_check(dir, test_text(plan, precision), 0, "2 runs from seed 1");
    char log[300], full[1024];
    snprintf(log, sizeof log, "%s/cut/seed-1/log.jsonl", dir);
    snprintf(full, sizeof full,
             "finetune --init %s --train %s/train.jsonl --dev %s/dev.jsonl --epochs 6 --batch 5 --lr 3e-3 --seeds 2 "
             "--schedule linear --warmup-epochs 1 --out %s/cut --precision %s",
             test_checkpoint(CHECKPOINT_SMALL), dir, dir, dir, precision);
    bool killed = false;
    for (int try = 0; try < TRIES && !killed; try++) {
        test_remove(test_text("%s/cut", dir)); /* it was faster */
        ChildResult r = trainer_run_stopped(full, log, 400, SIGKILL);
        killed = r.status == 128 + SIGKILL;
        CHECK_MSG(killed || r.status == 0, "status %d: %s", r.status, r.output);
        free(r.output);
    }
    CHECK(killed);
    finetune_check(dir, "finetune --resume --out %D/cut --lr 1e-3", 1,
                   "--lr is 0.001, the run to be resumed has 0.003");
    finetune_check(dir, "finetune --resume --out %D/cut", 0, "done");
    for (int seed = 1; seed <= 2; seed++)
        for (size_t i = 0; i < COUNTOF(files); i++) {
            char name[2][80];
            snprintf(name[0], sizeof name[0], "whole/seed-%d/%s", seed, files[i]);
            snprintf(name[1], sizeof name[1], "cut/seed-%d/%s", seed, files[i]);
            trainer_hash_file(dir, name[0], sums[0]);
            trainer_hash_file(dir, name[1], sums[1]);
            CHECK_MSG(!strcmp(sums[0], sums[1]), "%s differs", name[1]);
        }
    trainer_hash_file(dir, "whole/results.json", sums[0]);
    trainer_hash_file(dir, "cut/results.json", sums[1]);
    CHECK(!strcmp(sums[0], sums[1]));
    trainer_hash_file(dir, "whole/seed-2/model.safetensors", sums[0]);
    trainer_hash_file(dir, "whole/seed-1/model.safetensors", sums[1]);
    CHECK(strcmp(sums[0], sums[1])); /* a seed is a run of its own */
    test_write_text(dir, "dev.jsonl", "{\"text\":\"the stone\",\"label\":\"HARD\"}\n");
    finetune_check(dir, "finetune --resume --out %D/cut", 1, "are not what the run to be resumed began with");
}

TEST(finetune_resumes_to_the_same_bits) { check_resumes("f32"); }
TEST(finetune_resumes_to_the_same_bits_in_bf16) { check_resumes("bf16"); }

static void tune(const char *dir, const char *precision, const char *says, char hash[65]) {
    finetune_check(dir,
                   test_text("finetune --init %%M --train %%D/train.jsonl --epochs 2 --out %%D/%s --precision %s",
                             precision, precision),
                   0, says);
    trainer_hash_file(dir, test_text("%s/optimizer.safetensors", precision), hash);
}

/* Where the processor is no faster at bf16 products a run is one in f32, says so, and stays one. */
TEST(finetune_in_bf16) {
    const char *dir = finetune_data();
    char f32[65], bf16[65];
    tune(dir, "f32", "done", f32);
    tune(dir, "bf16", "done", bf16);
    CHECK(!strcmp(f32, bf16) == !kernels->train->pairs_pay);
    test_remove(test_text("%s/bf16", dir));
    test_env("NOISED_ISA", "ref");
    tune(dir, "bf16", "precision: f32, which is faster than bf16 on this processor (level ref)", bf16);
    CHECK(!strcmp(f32, bf16) || strcmp(kernels->arithmetic, "common") != 0);
    finetune_check(dir, "finetune --resume --out %D/bf16 --precision bf16", 0, "done");
    test_env_back();
    finetune_check(dir, "finetune --resume --out %D/bf16", 0, "done");
    if (kernels->train->pairs_pay)
        finetune_check(dir, "finetune --resume --out %D/bf16 --precision bf16", 1, "the run to be resumed has f32");
}

/* Other tokens of as many: the ids would mean other words, and the tokenizer.json beside the weights would go. */
TEST(finetune_resumes_with_its_own_tokenizer) {
    const char *dir = finetune_data();
    char path[300], sums[2][65];
    static const char run[] = "finetune --config mha-nano --tokenizer %D/tokenizer.json --train %D/train.jsonl "
                              "--epochs 1 --batch 4 --out %D/run";
    finetune_check(dir, "tokenizer --data %D/train.jsonl --vocab-size 270 --out %D/tokenizer.json", 0, "270 tokens");
    finetune_check(dir, run, 0, "done");
    snprintf(path, sizeof path, "mv %s/train.jsonl %s/moved.jsonl", dir, dir);
    REQUIRE(system(path) == 0);
    finetune_check(dir, "finetune --resume --train %D/moved.jsonl --out %D/run", 0, "done"); /* known by its content */
    finetune_check(dir, "tokenizer --data %D/train.conll --vocab-size 270 --out %D/tokenizer.json", 0, "270 tokens");
    snprintf(path, sizeof path, "%s/run", dir);
    trainer_hash_file(path, "tokenizer.json", sums[0]);
    finetune_check(dir, "finetune --resume --train %D/moved.jsonl --out %D/run", 1,
                   "the tokenizer has changed (sha256 ");
    trainer_hash_file(path, "tokenizer.json", sums[1]);
    CHECK(!strcmp(sums[0], sums[1]));
}

/* What is refused when the weights are made leaves nothing in the way of the next try. */
TEST(finetune_refused_leaves_no_run) {
    const char *dir = finetune_data();
    char path[300];
    static const char *const refused[] = {"--sigma-start 0.1", "--sigma-start 0.1 --seeds 2"};
    finetune_check(dir, "tokenizer --data %D/train.jsonl --vocab-size 270 --out %D/tokenizer.json", 0, "270 tokens");
    snprintf(path, sizeof path, "%s/run", dir);
    for (size_t i = 0; i < COUNTOF(refused); i++) {
        finetune_check(
            dir,
            test_text("finetune --config mha-nano --tokenizer %%D/tokenizer.json --train %%D/train.jsonl --epochs 1 "
                      "--out %%D/run %s",
                      refused[i]),
            1, "--sigma-start is 0.1, but the config's noise has no sigma");
        CHECK_MSG(access(path, F_OK) < 0, "%s is there", path);
    }
}

/* Which epoch is the best is read from the log, so a run goes on from no other. */
TEST(finetune_resumes_from_no_other_log) {
    const char *dir = finetune_data(), *run = test_text("%s/run", dir);
    finetune_check(
        dir, "finetune --init %M --train %D/train.jsonl --dev %D/dev.jsonl --epochs 1 --batch 8 --freeze --out %D/run",
        0, "done");
    finetune_check(dir, "finetune --resume --out %D/run", 0, "done");
    test_write_text(run, "log.jsonl", "{\"step\":3,\"epoch\":1,\"loss\":1}\n");
    finetune_check(dir, "finetune --resume --out %D/run", 1, "log.jsonl: line 1 has no accuracy on dev");
    test_write_text(run, "log.jsonl", "");
    finetune_check(dir, "finetune --resume --out %D/run", 1, "log.jsonl is empty, but the run has done 1 epochs");
}
