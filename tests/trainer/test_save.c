/* A save beside the steps: what it writes is what it began with, whatever happens meanwhile. */
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/run_folder.h"
#include "trainer/save.h"

#include <fcntl.h>
#include <math.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two slices and one that is short. */
enum { LONG = SLICE + SLICE / 2, SHORT = 5, N = LONG + SHORT };

typedef struct Saved {
    ParamSet ps;
    Weight first, second;
    Optimizer o;
    Save save;
    const char *dir;
    char path[300];
    sem_t held; /* what is written behind a commit waits for it */
} Saved;

static int hold(void *context, const OptimizerOut *out, Err *err) {
    (void)out, (void)err;
    return sem_wait(context);
}

static void fill(Saved *f, float x) {
    for (int i = 0; i < N; i++) {
        f->o.w[i] = (float)i + x;
        f->o.m[i] = (float)-i + x;
        f->o.v[i] = (float)i / 2 + x;
    }
}

static void saved_open(Saved *f) {
    *f = (Saved){.dir = test_dir()};
    param_declare(&f->ps, &f->first, "long", 1, (int[]){LONG}, (Init){.kind = INIT_CONSTANT});
    param_declare(&f->ps, &f->second, "a.short", 1, (int[]){SHORT}, (Init){.kind = INIT_CONSTANT});
    optimizer_init(&f->o, &f->ps, false, 1);
    snprintf(f->path, sizeof f->path, "%s/" RUN_OPTIMIZER, f->dir);
}

static void saved_close(Saved *f) {
    save_free(&f->save);
    optimizer_free(&f->o);
    params_free(&f->ps);
}

static int begin(Saved *f, int64_t step, Err *err) { return save_begin(&f->save, &f->o, &f->ps, f->dir, step, err); }

/* The file is that of fill(x), and nothing lies beside it. */
static void check_file(Saved *f, int64_t wanted, float x) {
    Err err = {""};
    int64_t step = -1;
    fill(f, NAN);
    CHECK_MSG(optimizer_load(&f->o, &f->ps, f->dir, &step, &err) == 0, "%s", err.msg);
    CHECK_MSG(step == wanted, "step %lld", (long long)step);
    for (int i = 0; i < N; i++)
        REQUIRE(f->o.w[i] == (float)i + x && f->o.m[i] == (float)-i + x && f->o.v[i] == (float)i / 2 + x);
    CHECK(access(test_text("%s.tmp", f->path), F_OK) != 0);
}

TEST(save_is_what_it_began_with) {
    Saved f;
    Err err = {""};
    size_t n[2];
    saved_open(&f);
    for (int64_t step = 1; step < 20; step++) {
        fill(&f, (float)step);
        REQUIRE(begin(&f, step, &err) == 0);
        fill(&f, NAN); /* as the next steps do */
        CHECK_MSG(save_end(&f.save, &err) == 0, "%s", err.msg);
        check_file(&f, step, (float)step);
    }
    char *beside = test_read_file(f.path, &n[0]);
    CHECK_MSG(save_now(&f.save, &f.o, &f.ps, f.dir, 19, &err) == 0, "%s", err.msg);
    char *alone = test_read_file(f.path, &n[1]);
    CHECK(n[0] == n[1] && !memcmp(beside, alone, n[0]));
    free(beside);
    free(alone);
    saved_close(&f);
}

/* What is written behind the commit is held; f is filled with 1. */
static void saved_open_held(Saved *f) {
    saved_open(f);
    sem_init(&f->held, 0, 0);
    f->save.accompany = hold;
    f->save.context = &f->held;
    fill(f, 1);
}

/* Steps are not kept by what is held, and when it is let go the file is that of fill(1). */
static void check_held(Saved *f) {
    Err err = {""};
    for (int i = 0; i < 3; i++) CHECK(save_look(&f->save, &err) == 0 && f->save.phase == SAVE_COMMIT);
    sem_post(&f->held);
    CHECK(save_end(&f->save, &err) == 0 && f->save.phase == SAVE_NONE);
    check_file(f, 1, 1);
    sem_destroy(&f->held);
    saved_close(f);
}

TEST(save_is_not_waited_for) {
    Saved f;
    Err err = {""};
    saved_open_held(&f);
    REQUIRE(begin(&f, 1, &err) == 0);
    while (access(f.path, F_OK)) CHECK(save_look(&f.save, &err) == 0);
    check_held(&f);
}

/* What is in memory is written when it returns, and may change; what it may wait for is the rest. */
TEST(save_uncopied_leaves_the_rest_to_a_thread) {
    Saved f;
    Err err = {""};
    saved_open_held(&f);
    REQUIRE(save_begin_uncopied(&f.save, &f.o, &f.ps, f.dir, 1, &err) == 0);
    CHECK(f.save.phase == SAVE_COMMIT && !f.save.copy);
    fill(&f, NAN);
    check_held(&f);
}

/* Whole slices of zeros are not written, but for a -0. */
TEST(save_of_zeros_is_read_again) {
    Saved f;
    Err err = {""};
    int64_t step;
    saved_open(&f);
    fill(&f, 1);
    memset(f.o.m, 0, N * sizeof *f.o.m);
    for (int i = 0; i < N; i++) f.o.v[i] = -0.0f;
    REQUIRE(save_now(&f.save, &f.o, &f.ps, f.dir, 1, &err) == 0);
    fill(&f, NAN);
    CHECK_MSG(optimizer_load(&f.o, &f.ps, f.dir, &step, &err) == 0, "%s", err.msg);
    for (int i = 0; i < N; i++)
        REQUIRE(f.o.w[i] == (float)i + 1 && f.o.m[i] == 0 && !signbit(f.o.m[i]) && f.o.v[i] == 0 && signbit(f.o.v[i]));
    saved_close(&f);
}

/* A disk that is full is told of behind a later step, and what was saved before stands. */
TEST(save_that_fails_is_told) {
    Saved f;
    Err err = {""};
    struct rlimit before, low;
    saved_open(&f);
    fill(&f, 1);
    REQUIRE(save_now(&f.save, &f.o, &f.ps, f.dir, 1, &err) == 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    low = (struct rlimit){4096, before.rlim_max};
    int rc = begin(&f, 2, &err);
    REQUIRE(rc == 0 && save_end(&f.save, &err) == 0);
    check_file(&f, 2, 1);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    CHECK(begin(&f, 3, &err) == 0);
    while (f.save.phase != SAVE_NONE && (rc = save_look(&f.save, &err)) == 0) {}
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    signal(SIGXFSZ, handler);
    CHECK_MSG(rc == -1 && strstr(err.msg, RUN_OPTIMIZER ".tmp: File too large"), "%s", err.msg);
    CHECK(f.save.phase == SAVE_NONE);
    check_file(&f, 2, 1);
    fill(&f, 4);
    CHECK(begin(&f, 4, &err) == 0 && save_end(&f.save, &err) == 0);
    check_file(&f, 4, 4);
    saved_close(&f);
}

/* What follows the commit reads the file, another byte of which is damaged each time. */
static int spoil(void *context, const OptimizerOut *out, Err *err) {
    const ParamSet *ps = context;
    SafeFile file;
    for (int copy = 0; copy < 2; copy++) { /* of the first and of the second tensor's master weights */
        int fd = open(out->path, O_RDWR);
        unsigned char byte;
        off_t at = (off_t)out->offsets[copy] + 7;
        CHECK(pread(fd, &byte, 1, at) == 1);
        byte ^= 1;
        CHECK(pwrite(fd, &byte, 1, at) == 1);
        CHECK(optimizer_out_bind(out, &file, ps, err) == -1);
        byte ^= 1;
        CHECK(pwrite(fd, &byte, 1, at) == 1);
        close(fd);
    }
    return -1;
}

TEST(save_that_is_damaged_makes_no_model) {
    Saved f;
    Err err = {""};
    saved_open(&f);
    fill(&f, 1);
    f.save.accompany = spoil;
    f.save.context = &f.ps;
    CHECK(save_now(&f.save, &f.o, &f.ps, f.dir, 1, &err) == -1);
    CHECK_MSG(strstr(err.msg, "master.a.short from element 0 on has sha256 "), "%s", err.msg);
    saved_close(&f);
}

/* By a rank that fails for another reason and cannot wait for the others. */
TEST(save_that_is_given_up_leaves_the_last) {
    Saved f;
    Err err = {""};
    saved_open(&f);
    fill(&f, 1);
    REQUIRE(save_now(&f.save, &f.o, &f.ps, f.dir, 1, &err) == 0);
    fill(&f, 2);
    REQUIRE(begin(&f, 2, &err) == 0);
    save_free(&f.save);
    check_file(&f, 1, 1);
    saved_close(&f);
}

/* Before the first step, not at the first save. */
TEST(trainer_refuses_a_disk_that_is_too_small) {
    const char *dir = test_dir(), *disk = test_text("%s/disk", dir), *run = test_text("%s/disk/run", dir),
               *config = trainer_config_file(), *text = trainer_text_file(4000);
    bool mounted = mkdir(disk, 0700) == 0 && mount("tmpfs", disk, "tmpfs", 0, "size=64k") == 0;
    if (mounted) {
        ChildResult r = trainer_run(test_text("pretrain --config %s --data %s --steps 4 --out %s", config, text, run));
        CHECK_MSG(r.status == 1 && strstr(r.output, "/run has ") && strstr(r.output, " left, but the run takes "),
                  "status %d: %s", r.status, r.output);
        CHECK(access(run, F_OK) == -1);
        free(r.output);
        umount(disk);
    }
    if (!mounted) SKIP("no tmpfs may be mounted here");
}
