/* The best checkpoint beside the last. */
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/training.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first of equals, and nothing that is no figure. */
TEST(best_is_the_first_of_equals) {
    static const struct {
        double figure;
        bool best;
    } seen[] = {{NAN, false}, {-3, true}, {-3, false}, {NAN, false}, {-2.5, true}, {-2.6, false}};
    Training t = {0};
    for (size_t i = 0; i < COUNTOF(seen); i++)
        CHECK_MSG(training_see(&t, (int64_t)i + 1, seen[i].figure) == seen[i].best, "step %zu", i + 1);
    CHECK(t.best.step == 5);
}

static void hash_weights(const char *dir, const char *folder, char hex[65]) {
    const char *run = test_text("%s/%s", dir, folder);
    trainer_hash_file(run, "model.safetensors", hex);
}

/* What is learnt of words makes JSON less likely, so the best is not the last; a run in two parts keeps the same. */
TEST(best_checkpoint_is_kept) {
    static const char *const runs[] = {"whole --steps 60", "parts --steps 30", "parts --steps 60 --resume"};
    const char *dir = test_dir(), *text = trainer_text_file(20000), *config = trainer_config_file();
    char best[65], last[65], of_parts[65];
    for (int i = 0; i < 3; i++) {
        trainer_done(
            test_text("pretrain --config %s --data %s --val %s --batch 2 --lr 0.01 --warmup 0 --schedule constant "
                      "--threads 1 --eval-every 10 --save-every 10 --out %s/%s",
                      config, text, config, dir, runs[i]));
    }
    hash_weights(dir, "whole", last);
    hash_weights(dir, "whole/best", best);
    hash_weights(dir, "parts/best", of_parts);
    CHECK(strcmp(best, last) && !strcmp(best, of_parts));
    trainer_done(test_text("sample --model %s/whole/best --prompt the --max-tokens 2", dir));
}

/* A log without what the clock says of each step. */
static char *log_of(const char *dir, const char *run) {
    static const char speed[] = ",\"tokens_per_second\":";
    const char *folder = test_text("%s/%s", dir, run), *path = test_text("%s/log.jsonl", folder);
    char *log = test_read_file(path, NULL);
    for (char *at = log; at && (at = strstr(at, speed));) {
        char *end = at + strlen(speed);
        end += strcspn(end, ",}");
        memmove(at, end, strlen(end) + 1);
    }
    return log;
}

/* Of a new run of two steps in the folder; false when the signal came after it. */
static bool cut_last_evaluation(const char *args, const char *folder) {
    test_remove(folder);
    ChildResult c = trainer_run_stopped_at(args, "step 2/2", SIGINT);
    bool stopped = c.status == 128 + SIGINT && strstr(c.output, "saved after step 2");
    char *lines = test_read_file(test_text("%s/log.jsonl", folder), NULL);
    bool within = stopped && lines && strstr(lines, "\"unfinished\":true}\n");
    CHECK_MSG(stopped || c.status == 0, "%d: %s", c.status, c.output);
    free(lines);
    free(c.output);
    return within;
}

/* A signal in the last evaluation: what it would have said, and the best, come when the run goes on. It was lost. */
TEST(best_checkpoint_of_an_evaluation_cut_short) {
    const char *dir = test_dir(), *text = trainer_text_file(20000), *val = trainer_text_file(400000),
               *config = trainer_config_file();
    char args[1024], best[2][65];
    static const char *const runs[] = {"whole", "cut"};
    for (int i = 0; i < 2; i++) {
        snprintf(args, sizeof args,
                 "pretrain --config %s --data %s --val %s --batch 2 --lr 0.01 --threads 1 --steps 2 --eval-every 1 "
                 "--sample-every 2 --save-every 0 --out %s/%s",
                 config, text, val, dir, runs[i]);
        if (i == 0) {
            trainer_done(args);
            continue;
        }
        bool within = false;
        for (int try = 0; try < TRIES && !within; try++) within = cut_last_evaluation(args, test_text("%s/cut", dir));
        CHECK(within);
        snprintf(args, sizeof args, "pretrain --resume --out %s/cut", dir);
        trainer_done(args);
    }
    char *whole = log_of(dir, "whole"), *cut = log_of(dir, "cut");
    CHECK_MSG(whole && cut && !strcmp(whole, cut), "%s against %s", whole, cut);
    const char *end = strstr(whole, "{\"step\":2,"), *all = strstr(end, "\"val_loss\":"),
               *some = strstr(end, "\"best\":");
    CHECK_MSG(all && some && atof(all + 11) != atof(some + 7), "%s", end); /* of a sample, as those before */
    hash_weights(dir, "whole/best", best[0]);
    hash_weights(dir, "cut/best", best[1]);
    CHECK(!strcmp(best[0], best[1]));
    free(whole);
    free(cut);
}

/* Signals in an evaluation, and in the same one when the run goes on, of which no step may come before it is whole. */
TEST(best_checkpoint_of_an_evaluation_cut_short_twice) {
    const char *dir = test_dir(), *text = trainer_text_file(40000),
               *args = test_text("pretrain --config mha-nano --vocab-size 300 --data %s --val %s --batch 1 --threads 1 "
                                 "--steps 3 --eval-every 1 --save-every 0 --out",
                                 text, text),
               *again = test_text("pretrain --resume --out %s/cut", dir);
    trainer_done(test_text("%s %s/whole", args, dir));
    free(trainer_run_stopped_at(test_text("%s %s/cut", args, dir), "step 1/3", SIGINT).output);
    free(trainer_run_stopped_at(again, "resumed after step 1", SIGINT).output);
    trainer_done(again);
    char *whole = log_of(dir, "whole"), *cut = log_of(dir, "cut");
    CHECK_MSG(whole && cut && !strcmp(whole, cut), "%s against %s", whole, cut);
    free(whole);
    free(cut);
}

static double bytes_of(const char *dir, const char *name) {
    const char *path = test_text("%s/%s", dir, name);
    size_t n = 0;
    free(test_read_file(path, &n));
    return (double)n;
}

/* What is told before the training is what lies there after it. */
TEST(best_checkpoint_disk_is_told) {
    const char *dir = test_dir(), *text = trainer_text_file(20000);
    double kept, more;
    ChildResult r = trainer_run(
        test_text("pretrain --config mha-nano --vocab-size 300 --data %s --steps 2 --eval-every 1 --save-dtype bf16 "
                  "--window 16 --out %s/a",
                  text, dir));
    const char *line = strstr(r.output, "\ndisk: ");
    REQUIRE(line);
    CHECK_MSG(sscanf(line, "\ndisk: %lf MiB for the last checkpoint and the best, %lf MiB more", &kept, &more) == 2,
              "%s", r.output);
    const char *run = test_text("%s/a", dir);
    double optimizer = bytes_of(run, "optimizer.safetensors") / 1048576;
    double weights = (bytes_of(run, "model.safetensors") + bytes_of(run, "best/model.safetensors")) / 1048576;
    CHECK_MSG(fabs(optimizer / more - 1) < 0.1 && fabs((optimizer + weights) / kept - 1) < 0.1, "%f and %f: %s",
              optimizer, weights, r.output);
    free(r.output);
}

/* Evaluated once, at the end, there is nothing to compare with. */
TEST(best_checkpoint_needs_two) {
    const char *dir = test_dir(), *text = trainer_text_file(20000), *config = trainer_config_file();
    trainer_done(test_text("pretrain --config %s --data %s --steps 2 --out %s/a", config, text, dir));
    const char *best = test_text("%s/a/best", dir);
    CHECK(access(best, F_OK) < 0);
}
