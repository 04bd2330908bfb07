/* A run is the same bytes on any number of ranks, by the real programs. SCALE=1 adds what takes long. */
#include "base/err.h"
#include "model/shape.h"
#include "tests/support/test.h"
#include "tests/trainer/test_mpi.h"
#include "tests/trainer/test_trainer.h"
#include "weights/presets.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORBIDDEN = 77 }; /* status of namespaces.sh */

static bool at_length(void) { return getenv("SCALE") != NULL; }

/* ---- the programs ---- */

MpiRun mpi_open(const char *args) {
    MpiRun m = {.dir = test_dir(), .text = trainer_text_file(8000), .config = trainer_config_file()};
    snprintf(m.args, sizeof m.args, "%s", args);
    return m;
}

void mpi_args(char args[2048], const MpiRun *m, const char *name, const char *more) {
    snprintf(args, 2048, "pretrain --data %s --out %s/%s %s %s", m->text, m->dir, name, m->args, more);
}

void mpi_train(const MpiRun *m, int n, const char *name, const char *more) {
    char args[2048];
    mpi_args(args, m, name, more);
    ChildResult r = n ? trainer_run_ranks(n, args) : trainer_run(args);
    CHECK_MSG(r.status == 0, "%d ranks, %s: status %d: %s", n, args, r.status, r.output);
    free(r.output);
}

void mpi_check_same(const MpiRun *m, const char *a, const char *b) {
    static const char *const files[] = {"optimizer.safetensors", "model.safetensors"};
    const char *dirs[] = {test_text("%s/%s", m->dir, a), test_text("%s/%s", m->dir, b)};
    char hash[2][65];
    for (size_t i = 0; i < COUNTOF(files); i++) {
        for (int k = 0; k < 2; k++) trainer_hash_file(dirs[k], files[i], hash[k]);
        CHECK_MSG(!strcmp(hash[0], hash[1]), "%s of %s and %s differ (%s)", files[i], a, b, m->args);
    }
}

int mpi_lines(const char *output) {
    int n = 0;
    for (const char *p = output; (p = strstr(p, "noised-train-mpi: ")); p++) n++;
    return n;
}

static const char everything[] = "--batch 2 --warmup 2 --lr 1e-2 --noise-draws 2 --perturb layer-after --perturb-sigma "
                                 "0.001 --dropout 0.1 --save-dtype bf16 --threads 1";

TEST(mpi_same_bits) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open(everything);
    const char *more = test_text("--config %s --steps 4 --accumulate 8", m.config);
    mpi_train(&m, 0, "one", more);
    static const int counts[] = {2, 3, 5, 6, 8, 4, 1};
    for (size_t i = 0; i < (at_length() ? COUNTOF(counts) : 2); i++) {
        const char *name = test_text("np%d", counts[i]);
        mpi_train(&m, counts[i], name, more);
        mpi_check_same(&m, "one", name);
    }
}

/* All look at the shards, one after the other, and read what they compute. */
TEST(mpi_same_bits_of_a_corpus) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open(everything);
    const char *corpus = test_text("%s/corpus", m.dir);
    char args[1024];
    snprintf(args, sizeof args, "tokenize --data %s --out %s --vocab-size 300", m.text, corpus);
    trainer_done(args);
    snprintf(args, sizeof args, "%s/checked.json", corpus);
    BUG_ON(unlink(args));
    m.text = corpus;
    snprintf(args, sizeof args, "--config %s --steps 4 --accumulate 8", m.config);
    mpi_train(&m, 3, "np3", args);
    mpi_train(&m, 0, "one", args);
    mpi_check_same(&m, "one", "np3");
}

/* Shares of 2, 2 and 1, then of 2 and 3, then all: the run goes on at another number each time. */
TEST(mpi_resume_on_other_ranks) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open(everything);
    mpi_train(&m, 0, "one", test_text("--config %s --steps 4 --accumulate 5 --schedule constant", m.config));
    mpi_train(&m, 3, "some", test_text("--config %s --steps 2 --accumulate 5 --schedule constant", m.config));
    mpi_train(&m, 2, "some", "--resume --steps 3 --sample-every 3");
    mpi_train(&m, 0, "some", "--resume --steps 4");
    mpi_check_same(&m, "one", "some");
}

/* A run that began in bf16 stays that on every processor, and its ranks have the weights in slices. They score, draw
 * and save on the way. */
TEST(mpi_same_bits_in_slices) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    static const int counts[] = {0, 2, 3, 5};
    MpiRun m = mpi_open("--batch 2 --warmup 1 --lr 1e-2 --noise-draws 2 --dropout 0.1 --schedule constant --threads 1");
    mpi_train(
        &m, 0, "begun",
        test_text("--config %s --steps 1 --accumulate 5 --eval-every 2 --sample-every 3 --save-every 2", m.config));
    for (size_t i = 0; i < COUNTOF(counts); i++) {
        const char *name = test_text("np%d", counts[i]);
        CHECK(system(test_text("cp -r %s/begun %s/%s && sed -i '/\"precision\"/s/f32/bf16/' %s/%s/trainer_state.json",
                               m.dir, m.dir, name, m.dir, name)) == 0);
        mpi_train(&m, counts[i], name, "--resume --steps 3 --sample-every 3");
        mpi_train(&m, counts[(i + 1) % COUNTOF(counts)], name, "--resume --steps 5");
        if (i) mpi_check_same(&m, "np0", name);
    }
}

/* More than one bucket, parameters of several slices, an optimizer without a second moment. */
TEST(mpi_same_bits_of_descent) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open("--config noble-nano --vocab-size 300 --window 16 --batch 1 --accumulate 4 --steps 2 "
                        "--optimizer sgd --momentum 0.9 --threads 1 --eval-every 0 --val none");
    mpi_train(&m, 0, "one", "");
    mpi_train(&m, 4, "np4", "");
    mpi_check_same(&m, "one", "np4");
}

TEST(mpi_same_bits_of_all_kinds) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    if (!at_length()) SKIP("long: SCALE=1");
    test_takes_long();
    char name[PRESET_NAME], more[256], folder[2][64];
    static const char *const ways[] = {"", "--precision bf16", "--recompute", "--precision bf16 --recompute"};
    MpiRun m = mpi_open("--vocab-size 300 --window 16 --batch 1 --accumulate 4 --steps 2 --threads 1");
    for (int i = 0; preset_name(i, name); i++) {
        if (!strstr(name, "-nano")) continue;
        Config c;
        if (preset_config(&c, name, NULL)) continue;
        if (config_classifies(&c) || (!c.causal && c.task == TASK_TEXT_GENERATION)) continue;
        for (size_t w = 0; w < COUNTOF(ways); w++) {
            snprintf(more, sizeof more, "--config %s %s", name, ways[w]);
            snprintf(folder[0], sizeof folder[0], "%d-%zu-one", i, w);
            snprintf(folder[1], sizeof folder[1], "%d-%zu-np", i, w);
            mpi_train(&m, 0, folder[0], more);
            mpi_train(&m, w % 2 ? 3 : 2, folder[1], more);
            mpi_check_same(&m, folder[0], folder[1]);
        }
    }
}

/* ---- what is refused ---- */

/* Rank 0 runs what all tests run, rank 1 `program` with another text or other options; nothing is left of it. */
static void check_refused(const MpiRun *m, const char *program, const char *text, const char *more, int status,
                          const char *message) {
    char args[4096], common[1024];
    snprintf(common, sizeof common, "--config %s --out %s/refused --steps 2 --accumulate 2 --threads 1", m->config,
             m->dir);
    snprintf(args, sizeof args, "pretrain %s --data %s : -np 1 %s pretrain %s --data %s %s", common, m->text, program,
             common, text, more);
    ChildResult r = trainer_run_ranks(1, args);
    CHECK_MSG(r.status == status && strstr(r.output, message), "wanted \"%s\", got %d: %s", message, r.status,
              r.output);
    free(r.output);
    snprintf(args, sizeof args, "%s/refused", m->dir);
    CHECK_MSG(access(args, F_OK), "%s was left behind", args);
}

/* The program with a byte more behind its end. */
static const char *other_program(const char *dir, const char *program) {
    const char *path = test_text("%s/noised-train-mpi", dir);
    CHECK(system(test_text("cp %s %s && printf x >>%s", program, path, path)) == 0);
    return path;
}

TEST(mpi_refuses_other_ranks) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *build = getenv("BUILD");
    MpiRun m = mpi_open("--threads 1");
    const char *text = trainer_text_file(8001);
    const char *program = test_text("%s/noised-train-mpi", build ? build : "build");
    const char *other = other_program(m.dir, program);
    check_refused(&m, program, text, "", 1, "the sha256 of --data and --val is ");
    check_refused(&m, program, m.text, "--lr 0.5", 1, "--lr is 0.5 on rank 1 (");
    check_refused(&m, program, m.text, "--warmup 9", 2, "--warmup is 9, longer than the run");
    check_refused(&m, other, m.text, "", 1, "the sha256 of the program is ");
}

/* One true line, whether one rank finds it, or all, or the line cannot even be read. */
static void check_one_line(int n, int status, const char *message, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void check_one_line(int n, int status, const char *message, const char *fmt, ...) {
    char args[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    ChildResult r = trainer_run_ranks(n, args);
    CHECK_MSG(r.status == status && strstr(r.output, message) && mpi_lines(r.output) == 1, "%s: status %d: %s", args,
              r.status, r.output);
    free(r.output);
}

TEST(mpi_refuses_in_one_line) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open("--steps 2 --accumulate 5 --threads 1");
    check_one_line(3, 2, "--lr: \"soon\" is not a number (see noised-train-mpi pretrain --help)", "pretrain --lr soon");
    check_one_line(3, 1, "/none.txt: No such file or directory",
                   "pretrain --config %s --data %s/none.txt --out %s/x %s", m.config, m.dir, m.dir, m.args);
    check_one_line(8, 1, "8 ranks cannot share a step of --accumulate 5: 5 can at most",
                   "pretrain --config %s --data %s --out %s/x %s", m.config, m.text, m.dir, m.args);
    check_one_line(3, 1, "--data is missing: ", "pretrain --resume --out %s/x", m.dir);
    check_one_line(3, 1, "/none/config.json: No such file or directory", "eval --model %s/none --data %s", m.dir,
                   m.text);
    check_one_line(3, 2, "--data or --task-data is missing", "eval --model %s", m.dir);
    check_one_line(3, 1, "/none/config.json: No such file or directory", "score --model %s/none --task %s", m.dir,
                   m.text);
    const char *folder = test_text("%s/x", m.dir);
    CHECK_MSG(access(folder, F_OK), "%s was left behind", folder);
}

/* The same words as one rank alone has for it. */
TEST(mpi_misfit_ends_all) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open("--config noble-nano --vocab-size 300 --window 16 --batch 1 --accumulate 5 --steps 20 --lr 50 "
                        "--warmup 1 --threads 1 --eval-every 0 --val none");
    static const int counts[] = {0, 3};
    char args[2048], said[COUNTOF(counts)][400];
    for (size_t i = 0; i < COUNTOF(counts); i++) {
        mpi_args(args, &m, test_text("np%d", counts[i]), "");
        ChildResult r = counts[i] ? trainer_run_ranks(counts[i], args) : trainer_run(args);
        const char *why = strstr(r.output, ": the gradient of ");
        CHECK_MSG(r.status == 1 && why, "status %d: %s", r.status, r.output);
        snprintf(said[i], sizeof said[i], "%.*s", why ? (int)strcspn(why, "\n") : 0, why ? why : "");
        CHECK_MSG(strstr(said[i], " in micro-batch ") && strstr(said[i], "where less than 2048 is taken"), "%s",
                  said[i]);
        free(r.output);
    }
    CHECK_MSG(!strcmp(said[0], said[1]), "%s; %s", said[0], said[1]);
}

/* Across hosts that share nothing but the folder: network namespaces. */
TEST(mpi_namespaces) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = mpi_open(everything);
    const char *build = getenv("BUILD");
    char more[512], args[2048], real[PATH_MAX];
    snprintf(more, sizeof more, "--config %s --steps 3 --accumulate 8", m.config);
    REQUIRE(realpath(test_text("%s/noised-train-mpi", build ? build : "build"), real));
    mpi_args(args, &m, "hosts", more);
    int status =
        system(test_text("tests/trainer/namespaces.sh n%d- 4 %s %s >%s/said 2>&1", (int)getpid(), real, args, m.dir));
    snprintf(args, sizeof args, "%s/said", m.dir);
    char *said = test_read_file(args, NULL);
    bool forbidden = WIFEXITED(status) && WEXITSTATUS(status) == FORBIDDEN;
    static char why[256];
    snprintf(why, sizeof why, "no network namespaces here: %.200s", said ? said : "");
    why[strcspn(why, "\n")] = 0;
    if (!forbidden) {
        CHECK_MSG(status == 0, "status %d: %s", status, said ? said : "");
        mpi_train(&m, 0, "one", more);
        mpi_check_same(&m, "one", "hosts");
    }
    free(said);
    if (forbidden) SKIP(why);
}
