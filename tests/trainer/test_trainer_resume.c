/* A run that is stopped or killed and resumed ends in the same bits as one that never was. */
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "model/kernels/blas.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Everything that draws random numbers is on. */
static const char flags[] = "--steps 40 --batch 2 --accumulate 2 --warmup 4 --lr 1e-2 --noise-draws 2 "
                            "--perturb layer-after --perturb-sigma 0.001 --dropout 0.1 --save-dtype bf16 --threads 1";

typedef struct Resume {
    const char *dir, *text, *config;
    char model[65], optimizer[65]; /* of the run never stopped */
    double seconds;                /* that it took, saving after every step */
} Resume;

static void run_args(char args[2048], const Resume *r, const char *name, const char *more) {
    snprintf(args, 2048, "pretrain --config %s --data %s --out %s/%s %s %s", r->config, r->text, r->dir, name, flags,
             more);
}

static ChildResult run_whole(const Resume *r, const char *name, const char *more) {
    char args[2048];
    run_args(args, r, name, more);
    return trainer_run(args);
}

static Resume resume_open(void) {
    Resume r = {.dir = test_dir(), .text = trainer_text_file(8000), .config = trainer_config_file()};
    double started = now_seconds();
    ChildResult whole = run_whole(&r, "whole", "--save-every 1 --eval-every 15");
    CHECK_MSG(whole.status == 0, "%s", whole.output);
    r.seconds = now_seconds() - started;
    free(whole.output);
    const char *dir = test_text("%s/whole", r.dir);
    trainer_hash_file(dir, "model.safetensors", r.model);
    trainer_hash_file(dir, "optimizer.safetensors", r.optimizer);
    return r;
}

static void check_same_bits(const Resume *r, const char *name) {
    const char *dir = test_text("%s/%s", r->dir, name);
    char model[65], optimizer[65];
    trainer_hash_file(dir, "model.safetensors", model);
    trainer_hash_file(dir, "optimizer.safetensors", optimizer);
    CHECK(!strcmp(model, r->model) && !strcmp(optimizer, r->optimizer));
}

/* Every step of the log is there once, in order. */
static void check_log(const Resume *r, const char *name) {
    char *log = test_read_file(test_text("%s/%s/log.jsonl", r->dir, name), NULL), *line = log;
    REQUIRE(log);
    for (int step = 1; step <= 40; step++) {
        const char *want = test_text("{\"step\":%d,", step);
        CHECK_MSG(line && !strncmp(line, want, strlen(want)), "line %d is %.20s", step, line ? line : "missing");
        line = line ? strchr(line, '\n') : NULL;
        if (line) line++;
    }
    CHECK(line && !*line);
    free(log);
}

static void check_finishes(const Resume *r, const char *name, const char *more) {
    ChildResult end = run_whole(r, name, more);
    CHECK_MSG(end.status == 0, "%s", end.output);
    free(end.output);
    check_same_bits(r, name);
    check_log(r, name);
}

/* Six signals to one run; how many stopped it between two steps. */
static int stop_often(const Resume *r, const char *name) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    char args[2048], log[1024];
    int stopped = 0;
    snprintf(log, sizeof log, "%s/%s/log.jsonl", r->dir, name);
    run_args(args, r, name, "--resume --save-every 0 --eval-every 3");
    for (int i = 0; i < 6; i++) {
        ChildResult c = trainer_run_stopped(args, log, 100 + 800 * i, signals[i % 3]);
        bool ended = c.status == 128 + signals[i % 3] && strstr(c.output, "--resume continues");
        /* before the first step, which is as good */
        bool early = c.status == 128 + signals[i % 3] && !strstr(c.output, "  loss ");
        CHECK_MSG(ended || early || c.status == 0, "status %d: %s", c.status, c.output);
        stopped += ended;
        free(c.output);
    }
    return stopped;
}

/* A run that was faster than all of them is another one's turn. */
TEST(trainer_resume_after_signals) {
    Resume r = resume_open();
    char name[16] = "";
    int stopped = 0;
    for (int try = 0; try < TRIES && stopped == 0; try++) {
        snprintf(name, sizeof name, "run%d", try);
        stopped = stop_often(&r, name);
        check_finishes(&r, name, "--resume --save-every 0");
    }
    CHECK(stopped > 0);
}

/* A checkpoint that a server may find in the folder at any moment. */
static void check_loadable(const Resume *r, const char *name) {
    const char *dir = test_text("%s/%s", r->dir, name);
    if (access(test_text("%s/model.safetensors", dir), F_OK)) return; /* killed before the first save */
    Checkpoint c;
    Err err;
    int rc = checkpoint_open(&c, dir, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    if (rc == 0) checkpoint_close(&c);
}

/* 20 kills at random moments of starts, saves and steps, each within the time of a run here. Whenever a run gets
 * through, it is compared and a new one is begun. */
TEST(trainer_resume_after_kill_9) {
    test_takes_long();
    Resume r = resume_open();
    Draws d = draws_open((uint64_t)getpid(), DRAW_TEST, 3);
    char args[2048], name[16] = "run0";
    for (int killed = 0, tried = 0, run = 0; killed < 20 && tried < 100; tried++) {
        double delay = 0.7 * r.seconds * draw_uniform(&d);
        run_args(args, &r, name, "--resume --save-every 1 --eval-every 5");
        ChildResult c = trainer_run_killed(args, delay, SIGKILL);
        CHECK_MSG(c.status == 0 || c.status == 128 + SIGKILL, "status %d: %s", c.status, c.output);
        killed += c.status != 0;
        free(c.output);
        check_loadable(&r, name);
        if (c.status == 0) {
            check_same_bits(&r, name);
            check_log(&r, name);
            snprintf(name, sizeof name, "run%d", ++run);
        }
    }
    check_finishes(&r, name, "--resume --save-every 7");
}

static void expect(const Resume *r, const char *args, int status, const char *message) {
    ChildResult c = trainer_run(test_text("pretrain --resume --out %s/whole %s", r->dir, args));
    CHECK_MSG(c.status == status && strstr(c.output, message), "%s gave %d: %s", args, c.status, c.output);
    free(c.output);
}

TEST(trainer_resume_refuses_contradictions) {
    Resume r = resume_open();
    expect(&r, "", 0, "resumed after step 40");
    check_same_bits(&r, "whole");
    expect(&r, "--seed 2", 1, "--seed is 2, the run to be resumed has 1");
    expect(&r, "--batch 2 --lr 0.5", 1, "--lr is 0.5, the run to be resumed has 0.01");
    expect(&r, "--steps 39", 1, "--steps is 39, the run has already done 40");
    expect(&r, "--val none", 1, "the texts have changed");
    expect(&r, "--config mha-nano", 1, "--config has ");
    expect(&r, test_text("--config %s --save-every 5", r.config), 0, "resumed after step 40");
    const char *other = trainer_text_file(9000);
    expect(&r, test_text("--data %s", other), 1, "the texts have changed");

    CHECK(system(test_text("printf ' ' >> %s/whole/tokenizer.json", r.dir)) == 0);
    expect(&r, "", 1, "tokenizer.json was changed (sha256 ");

    unlink(test_text("%s/whole/trainer_state.json", r.dir));
    expect(&r, "", 1, "but no trainer_state.json to continue from");
}

/* Data are known by their content, wherever they lie now. */
TEST(trainer_resume_finds_texts_that_moved) {
    const char *dir = test_dir(), *config = trainer_config_file(), *text = trainer_text_file(8000);
    char args[2048];
    snprintf(args, sizeof args, "cp %s %s/a && cp %s %s/v", text, dir, config, dir);
    REQUIRE(system(args) == 0);
    snprintf(args, sizeof args, "pretrain --config %s --data %s/a --val %s/v --steps 2 --batch 2 --out %s/run", config,
             dir, dir, dir);
    trainer_done(args);
    snprintf(args, sizeof args, "mv %s/a %s/b && mv %s/v %s/w", dir, dir, dir, dir);
    REQUIRE(system(args) == 0);
    snprintf(args, sizeof args, "pretrain --resume --data %s/b --val %s/w --steps 4 --out %s/run", dir, dir, dir);
    trainer_done(args);
    snprintf(args, sizeof args, "pretrain --resume --steps 6 --out %s/run", dir); /* where they lay last */
    trainer_done(args);
}

static void run_extended(const Resume *r, const char *name, const char *args) {
    trainer_done(test_text("pretrain --out %s/%s --save-every 0 --eval-every 0 %s", r->dir, name, args));
}

/* A run of 20 steps that goes on to 30 is one of 30 that was told `same` of the schedule from its start. */
static void check_extends(const char *schedule, const char *same) {
    Resume r = {.dir = test_dir(), .text = trainer_text_file(8000), .config = trainer_config_file()};
    char hash[2][65];
    const char *const names[] = {"extended", "whole"};
    for (int i = 0; i < 2; i++) {
        run_extended(&r, names[i],
                     test_text("--config %s --data %s --batch 2 --warmup 4 --threads 1 --steps %d %s", r.config, r.text,
                               i ? 30 : 20, i ? same : schedule));
    }
    run_extended(&r, "extended", "--resume --steps 30");
    for (int i = 0; i < 2; i++) {
        const char *run = test_text("%s/%s", r.dir, names[i]);
        trainer_hash_file(run, "optimizer.safetensors", hash[i]);
    }
    CHECK(!strcmp(hash[0], hash[1]));
}

static void check_extends_alike(const char *schedule) { check_extends(schedule, schedule); }

TEST(trainer_resume_extends_a_constant_schedule) { check_extends_alike("--schedule constant"); }
TEST(trainer_resume_extends_a_descent) { check_extends_alike("--schedule constant --optimizer sgd --momentum 0.9"); }
TEST(trainer_resume_extends_a_cut_cosine) { check_extends_alike("--decay-steps 40"); }
TEST(trainer_resume_extends_a_finished_cosine) { check_extends("", "--decay-steps 20"); }
TEST(trainer_resume_extends_a_finished_line) {
    check_extends("--schedule linear", "--schedule linear --decay-steps 20");
}

/* ---- before the first save ---- */

static bool has(const char *dir, const char *name) {
    const char *path = test_text("%s/%s", dir, name);
    bool there = access(path, F_OK) == 0;
    return there;
}

/* Two signals to the start of a run, when its tokenizer is there and its text, which takes a while, is not encoded.
 * False when it saved before. */
static bool stop_start(const char *run, const char *args) {
    bool early = true;
    const char *file = test_text("%s/tokenizer.json", run);
    for (int i = 0; i < 2 && early; i++) {
        ChildResult c = trainer_run_stopped(args, file, 0, i ? SIGKILL : SIGINT);
        early = !has(run, "trainer_state.json");
        bool stopped = c.status == 128 + (i ? SIGKILL : SIGINT) && has(run, "tokenizer.json");
        CHECK_MSG(stopped || !early, "%s", c.output);
        free(c.output);
    }
    return early;
}

TEST(trainer_start_that_was_stopped_blocks_nothing) {
    const char *dir = test_dir(), *text = trainer_text_file(4 << 20), *config = trainer_config_file();
    char args[1024], run[512];
    bool early = false;
    for (int try = 0; try < TRIES && !early; try++) {
        snprintf(run, sizeof run, "%s/%d", dir, try);
        snprintf(args, sizeof args, "pretrain --config %s --data %s --steps 1 --batch 1 --eval-every 0 --out %s",
                 config, text, run);
        early = stop_start(run, args);
    }
    CHECK_MSG(early, "it saved before any signal came");
    ChildResult c = trainer_run(args);
    CHECK_MSG(c.status == 0 && strstr(c.output, "stopped before it saved"), "%s", c.output);
    free(c.output);
    CHECK(has(run, "trainer_state.json") && !has(run, "unsaved"));
}

/* In a save, or between it and the end of the sign that nothing was saved. */
TEST(trainer_resume_removes_what_a_kill_left) {
    static const char *const left[] = {"optimizer.safetensors.tmp", "model.safetensors.tmp", "log.jsonl.tmp",
                                       "unsaved"};
    const char *dir = test_dir(), *text = trainer_text_file(8000), *config = trainer_config_file(),
               *run = test_text("%s/run", dir);
    trainer_done(test_text("pretrain --config %s --data %s --steps 2 --batch 1 --out %s", config, text, run));
    for (size_t i = 0; i < COUNTOF(left); i++) test_write_file(test_text("%s/%s", run, left[i]), "torn", 4);
    trainer_done(test_text("pretrain --resume --steps 3 --out %s", run));
    for (size_t i = 0; i < COUNTOF(left); i++) CHECK_MSG(!has(run, left[i]), "%s is still there", left[i]);
    CHECK(has(run, "trainer_state.json") && has(run, "tokenizer.json"));
}

/* A tokenizer.json that no start has made is somebody's. */
TEST(trainer_start_keeps_a_tokenizer_of_others) {
    const char *dir = test_dir(), *text = trainer_text_file(8000), *config = trainer_config_file();
    const char *file = test_text("%s/tokenizer.json", dir);
    test_write_file(file, "mine", 4);
    for (int i = 0; i < 2; i++) {
        ChildResult c = trainer_run(
            test_text("pretrain --config %s --data %s --steps 1 --out %s %s", config, text, dir, i ? "--resume" : ""));
        CHECK_MSG(c.status == 1 && strstr(c.output, i ? "holds tokenizer.json, but no" : "is not empty"), "%s",
                  c.output);
        free(c.output);
    }
    char *still = test_read_file(file, NULL);
    CHECK(still && !strcmp(still, "mine"));
    free(still);
}

/* Masks and dropout are drawn by the number of the step as well. */
/* On a processor of another arithmetic, which is said. */
TEST(trainer_resume_tells_another_arithmetic) {
    const Kernels *levels[KERNELS_LEVELS];
    if (kernels_available(levels) < 2 || strcmp(levels[1]->name, "blas") || blas_fault())
        SKIP("no OpenBLAS that is fit");
    const char *dir = test_dir(), *text = trainer_text_file(8000), *config = trainer_config_file();
    char args[2048], want[128];
    snprintf(want, sizeof want, "arithmetic: %s, the run had common: ", levels[1]->arithmetic);
    snprintf(args, sizeof args, "pretrain --config %s --data %s --out %s/run --steps 4 --batch 2 --schedule constant",
             config, text, dir);
    test_env("NOISED_ISA", "ref");
    trainer_done(args);
    snprintf(args, sizeof args, "pretrain --resume --out %s/run --steps 6", dir);
    ChildResult alike = trainer_run(args);
    CHECK_MSG(alike.status == 0 && !strstr(alike.output, "arithmetic: "), "%s", alike.output);
    test_env("NOISED_ISA", "blas");
    snprintf(args, sizeof args, "pretrain --resume --out %s/run --steps 8", dir);
    ChildResult other = trainer_run(args);
    test_env_back();
    CHECK_MSG(other.status == 0 && strstr(other.output, want), "%s", other.output);
    free(alike.output);
    free(other.output);
}

/* Noise so strong that some steps lose ten times as much as knowing nothing does, the first among them. */
TEST(trainer_resume_diverges_no_sooner) {
    const char *dir = test_dir(), *text = trainer_text_file(8000), *config = trainer_config_file();
    trainer_done(test_text("pretrain --config %s --data %s --out %s/run --steps 4 --batch 1 --schedule constant "
                           "--warmup 0 --perturb layer-before --perturb-sigma 2 --seed 4 --threads 1",
                           config, text, dir));
    trainer_done(test_text("pretrain --resume --out %s/run --steps 12 --threads 1", dir));
}

TEST(trainer_resume_fills_masks) {
    static const char *const runs[] = {"whole --steps 6", "half --steps 3", "half --steps 6 --resume"};
    const char *dir = test_dir(), *text = trainer_text_file(8000);
    char args[2048], hash[2][65];
    for (size_t i = 0; i < COUNTOF(runs); i++) {
        snprintf(
            args, sizeof args,
            "pretrain --config mlm-noble-nano --vocab-size 300 --data %s --batch 2 --dropout 0.1 --schedule constant "
            "--threads 1 --out %s/%s",
            text, dir, runs[i]);
        trainer_done(args);
    }
    for (int i = 0; i < 2; i++) {
        const char *run = test_text("%s/%s", dir, i ? "half" : "whole");
        trainer_hash_file(run, "optimizer.safetensors", hash[i]);
    }
    CHECK(!strcmp(hash[0], hash[1]));
}

/* A limit on the size of files (ulimit -f) is an ordinary error, not a signal's silent end. */
TEST(trainer_files_beyond_a_limit) {
    Resume r = {.dir = test_dir(), .text = trainer_text_file(8000), .config = trainer_config_file()};
    struct rlimit before;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    struct rlimit low = {8192, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    ChildResult cut = run_whole(&r, "cut", "--save-every 1");
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_MSG(cut.status == 1 && strstr(cut.output, "File too large"), "status %d: %s", cut.status, cut.output);
    free(cut.output);
}
