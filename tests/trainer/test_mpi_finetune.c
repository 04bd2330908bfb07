/* finetune is the same bytes on any number of ranks, by the real programs; what micro-batches of a step add up to. */
#include "base/buffer.h"
#include "tests/support/checkpoints.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/support/test.h"
#include "tests/trainer/test_mpi.h"
#include "tests/trainer/test_trainer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 24 texts about stones or books, and as many sentences of one to five words with tags. */
static const char *put_data(void) {
    static const char *const words[] = {"river", "mill", "wheel", "word"};
    Buffer texts = {0}, tags = {0};
    const char *dir = test_dir();
    for (int i = 0; i < 24; i++) {
        const char *what = i / 4 % 2 ? "stone" : "book", *label = i / 4 % 2 ? "HARD" : "SOFT";
        buffer_print(&texts, "{\"text\":\"the %s and the %s\",\"label\":\"%s\"}\n", words[i % 4], what, label);
        for (int k = 0; k < i * i % 5; k++) buffer_print(&tags, "%s\tO\n", words[(i + k) % 4]);
        buffer_print(&tags, "%s\tB-%s\n\n", what, label);
    }
    buffer_append(&texts, "", 1);
    buffer_append(&tags, "", 1);
    test_write_text(dir, "train.jsonl", texts.data);
    test_write_text(dir, "train.conll", tags.data);
    buffer_free(&texts);
    buffer_free(&tags);
    return dir;
}

static void words_of(char args[1024], const char *dir, const char *data, const char *name, const char *more) {
    snprintf(args, 1024, "finetune --init %s --train %s/%s --dev %s/%s --out %s/%s --threads 1 %s",
             test_checkpoint(CHECKPOINT_SMALL), dir, data, dir, data, dir, name, more);
}

/* On n ranks, 0 being noised-train. */
static void run(int n, const char *args) {
    ChildResult r = n ? trainer_run_ranks(n, args) : trainer_run(args);
    bool told = strstr(r.output, "memory: ") || strstr(args, "--freeze") || strstr(args, "--resume");
    CHECK_MSG(r.status == 0 && told, "%d ranks, %s: status %d: %s", n, args, r.status, r.output);
    free(r.output);
}

static void check_same(const char *dir, const char *a, const char *b, const char *const *files, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char path[2][200], hash[2][65];
        snprintf(path[0], sizeof path[0], "%s/%s", a, files[i]);
        snprintf(path[1], sizeof path[1], "%s/%s", b, files[i]);
        for (int k = 0; k < 2; k++) trainer_hash_file(dir, path[k], hash[k]);
        CHECK_MSG(!strcmp(hash[0], hash[1]), "%s and %s differ", path[0], path[1]);
    }
}

static const char *const files[] = {"optimizer.safetensors", "model.safetensors", "config.json", "log.jsonl",
                                    "results.json"};

/* Steps of 10, 10 and 4 examples in 5 micro-batches, one of which is empty at the end of an epoch. */
TEST(mpi_finetune_same_bits) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    static const struct {
        const char *data, *more;
        int ranks[4];
    } cases[] = {{"train.jsonl", "--epochs 2 --dropout 0.1 --perturb layer-after --perturb-sigma 0.001", {5, 2, 3, 1}},
                 {"train.conll", "--epochs 3 --patience 1 --lr 1e-9 --precision bf16", {3}},
                 {"train.jsonl", "--epochs 2 --freeze --optimizer sgd --momentum 0.9", {2}}};
    const char *dir = put_data();
    char args[1024], more[512], name[2][32];
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        snprintf(more, sizeof more, "--batch 2 --accumulate 5 %s", cases[i].more);
        snprintf(name[0], sizeof name[0], "one%zu", i);
        words_of(args, dir, cases[i].data, name[0], more);
        run(0, args);
        for (int k = 0; k < (getenv("SCALE") ? 4 : 2) && cases[i].ranks[k]; k++) {
            snprintf(name[1], sizeof name[1], "np%d-%zu", cases[i].ranks[k], i);
            words_of(args, dir, cases[i].data, name[1], more);
            run(cases[i].ranks[k], args);
            check_same(dir, name[0], name[1], files, COUNTOF(files));
        }
        snprintf(args, sizeof args, "finetune --resume --out %s/%s --threads 1", dir, name[1]);
        run(2, args); /* all see that nothing is left to be done, be it for want of patience */
        check_same(dir, name[0], name[1], files, COUNTOF(files));
    }
}

static bool has_bytes(const char *path, long bytes) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_size >= bytes;
}

/* SIGTERM to the last of n ranks as soon as the file has so many bytes, unless they have ended before. */
static ChildResult run_stopped(int n, const char *args, const char *path, long bytes) {
    const char *output;
    pid_t found[8], mpirun = trainer_start_ranks(n, args, &output);
    bool there = mpi_find_ranks(mpirun, found, n);
    while (there && !has_bytes(path, bytes) && kill(found[n - 1], 0) == 0) usleep(300);
    if (there) kill(found[n - 1], SIGTERM);
    return trainer_finish(mpirun, output);
}

/* Two seeds; a signal to one rank ends all, and others go on behind the last whole epoch. */
TEST(mpi_finetune_resumes_on_other_ranks) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *dir = put_data();
    char args[1024];
    static const char plan[] = "--epochs 6 --batch 1 --accumulate 4 --patience 5 --seeds 2";
    words_of(args, dir, "train.jsonl", "one", plan);
    run(0, args);
    words_of(args, dir, "train.jsonl", "some", plan);
    ChildResult r = {0};
    for (int try = 0; try < TRIES && r.status == 0; try++) { /* it may be faster */
        test_remove(test_text("%s/some", dir));
        free(r.output);
        r = run_stopped(4, args, test_text("%s/some/seed-1/log.jsonl", dir), 400);
    }
    CHECK_MSG(r.status == 143 && strstr(r.output, "stopped by signal 15: --resume continues"), "status %d: %s",
              r.status, r.output);
    free(r.output);
    snprintf(args, sizeof args, "finetune --resume --out %s/some --threads 1", dir);
    run(3, args);
    run(0, args); /* that nothing is left to do is seen by all alike */
    run(2, args);
    check_same(dir, "one", "some", (const char *[]){"results.json"}, 1);
    check_same(dir, "one/seed-1", "some/seed-1", files, COUNTOF(files) - 1);
    check_same(dir, "one/seed-2", "some/seed-2", files, COUNTOF(files) - 1);
}

/* ---- what is refused ---- */

static void check_refused(int n, const char *args, int status, const char *says) {
    ChildResult r = trainer_run_ranks(n, args);
    CHECK_MSG(r.status == status && strstr(r.output, says) && mpi_lines(r.output) == 1, "wanted \"%s\", got %d: %s",
              says, r.status, r.output);
    free(r.output);
}

/* One line each, whether all ranks find it or one; nothing is left behind. */
TEST(mpi_finetune_refuses_in_one_line) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *build = getenv("BUILD");
    const char *dir = put_data();
    char args[4096], one[1024], other[1024];
    words_of(one, dir, "train.jsonl", "x", "--accumulate 2");
    check_refused(3, one, 1, "3 ranks cannot share a step of --accumulate 2: 2 can at most");
    words_of(one, dir, "none.jsonl", "x", "--accumulate 3");
    check_refused(3, one, 1, "none.jsonl: No such file or directory");
    words_of(one, dir, "train.jsonl", "x", "--accumulate 3 --perturb all-after");
    check_refused(3, one, 2, "--perturb and --perturb-sigma need each other");
    words_of(one, dir, "train.jsonl", "x", "--accumulate 3");
    words_of(other, dir, "train.jsonl", "x", "--accumulate 3 --lr 0.5");
    snprintf(args, sizeof args, "%s : -np 1 %s/noised-train-mpi %s", one, build ? build : "build", other);
    check_refused(2, args, 1, "--lr is 0.5 on rank 2 (");
    words_of(other, dir, "train.jsonl", "x", "--accumulate 2");
    snprintf(args, sizeof args, "%s : -np 1 %s/noised-train-mpi %s", one, build ? build : "build", other);
    check_refused(2, args, 1, "--accumulate is 2 on rank 2 (");
    words_of(other, dir, "train.jsonl", "x", "--accumulate 3 --epochs 2 --warmup-epochs 9");
    snprintf(args, sizeof args, "%s : -np 1 %s/noised-train-mpi %s", one, build ? build : "build", other);
    check_refused(2, args, 2, ": --warmup-epochs is 9, --epochs 2");
    snprintf(args, sizeof args, "%s/x", dir);
    CHECK_MSG(access(args, F_OK), "%s was left behind", args);
}

/* ---- micro-batches of a step ---- */

static cJSON *epoch_of(const char *dir, const char *name, int epoch) {
    const char *path = test_text("%s/%s/log.jsonl", dir, name);
    char *log = test_read_file(path, NULL), *line = log;
    for (int i = 1; line && i < epoch; i++) line = strchr(line, '\n') + 1;
    cJSON *o = line ? cJSON_Parse(line) : NULL;
    CHECK_MSG(o, "%s has no epoch %d", path, epoch);
    free(log);
    return o;
}

/* The mean over what is labelled, however many words a micro-batch has: as of one batch but for the order of sums. */
TEST(finetune_accumulates) {
    const char *dir = put_data();
    static const struct {
        const char *name, *how;
    } runs[] = {{"whole", "--batch 10"}, {"parts", "--batch 2 --accumulate 5"}, {"few", "--batch 5 --accumulate 2"}};
    for (size_t i = 0; i < COUNTOF(runs); i++) {
        run(0, test_text("finetune --config mha-nano --tokenizer %s/tokenizer.json --train %s/train.conll --dev "
                         "%s/train.conll --epochs 2 --optimizer sgd --lr 0.5 --clip 0 --threads 1 --out %s/%s %s",
                         test_checkpoint(CHECKPOINT_SMALL), dir, dir, dir, runs[i].name, runs[i].how));
    }
    for (int epoch = 1; epoch <= 2; epoch++) {
        cJSON *whole = epoch_of(dir, "whole", epoch);
        for (size_t i = 1; i < COUNTOF(runs); i++) {
            cJSON *o = epoch_of(dir, runs[i].name, epoch);
            static const char *const figures[] = {"loss", "val_loss"};
            for (size_t k = 0; k < COUNTOF(figures); k++) {
                double a = json_number(whole, figures[k]), b = json_number(o, figures[k]);
                CHECK_MSG(fabs(a / b - 1) < 1e-5, "epoch %d: %s is %.9g, of %s %.9g", epoch, figures[k], a, runs[i].how,
                          b);
            }
            CHECK(json_number(o, "step") == 3 * epoch);
            cJSON_Delete(o);
        }
        cJSON_Delete(whole);
    }
}
