/* scripts/train_on_hosts.sh: whatever befalls the ranks of a job, it comes back on other ranks and ends in the bytes of
 * a run that nothing happened to. SCALE=1 makes 100 trials of it and prints the table of docs/scale.md. */
#include "base/clock.h"
#include "base/random.h"
#include "tests/support/test.h"
#include "tests/trainer/test_mpi.h"
#include "tests/trainer/test_trainer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 4, STEPS = 24, SAVE_EVERY = 4 };

typedef struct Elastic {
    MpiRun m;
    Draws draws;
    const char *hosts;
    char name[32]; /* of the folder */
} Elastic;

typedef struct Job {
    Elastic *e;
    pid_t ranks[RANKS];
} Job;

static void kill_one(const Job *j, int victim) { kill(j->ranks[victim], SIGKILL); }
static void hang_one(const Job *j, int victim) { kill(j->ranks[victim], SIGSTOP); }

static void kill_two(const Job *j, int victim) {
    kill_one(j, victim);
    kill_one(j, (victim + 1) % RANKS);
}

static void hang_two(const Job *j, int victim) {
    hang_one(j, victim);
    hang_one(j, (victim + 2) % RANKS);
}

static void kill_and_hang(const Job *j, int victim) {
    hang_one(j, victim);
    kill_one(j, (victim + 1) % RANKS);
}

/* Until they are gone. */
static void fill_disk(const Job *j, int victim) {
    (void)victim;
    const char *filler = test_text("%s/%.*s/filler", j->e->m.dir, (int)strcspn(j->e->name, "/"), j->e->name);
    mpi_fill(filler, 16384);
    while (kill(j->ranks[0], 0) == 0) clock_sleep(0.01);
    unlink(filler);
}

static void fill_disk_of_one(const Job *j, int victim) { mpi_deny_writes(j->ranks[victim]); }

typedef struct Blow {
    const char *name;
    void (*strike)(const Job *j, int victim);
    bool on_disk; /* its run has a small file system */
} Blow;

static const Blow blows[] = {
    {"kill -9", kill_one, false},
    {"kill -STOP", hang_one, false},
    {"kill -9 of two", kill_two, false},
    {"kill -STOP of two", hang_two, false},
    {"one stopped, one killed", kill_and_hang, false},
    {"full disk of one", fill_disk_of_one, false},
    {"full disk of all", fill_disk, true},
};
enum { BLOWS = COUNTOF(blows) };

typedef struct Toll {
    int trials, lost; /* lost: most steps done again */
} Toll;

static void write_hosts(const Elastic *e, int slots) {
    char text[64];
    test_write_file(e->hosts, text, (size_t)snprintf(text, sizeof text, "localhost slots=%d\n", slots));
}

static Elastic elastic_open(void) {
    Elastic e = {.m = mpi_open(""), .draws = draws_open((uint64_t)getpid(), DRAW_TEST, 5)};
    const char *build = getenv("BUILD");
    const char *program = test_text("%s/noised-train-mpi", build ? build : "build");
    snprintf(e.m.args, sizeof e.m.args,
             "--config %s --batch 1 --accumulate 8 --steps %d --save-every %d --eval-every 8 --warmup 4 --threads 1",
             e.m.config, STEPS, SAVE_EVERY);
    e.hosts = test_text("%s/hosts", e.m.dir);
    setenv("NOISED_RANK_TIMEOUT", "2", 1);
    setenv("MPIRUN", TRAINER_MPIRUN, 1);
    setenv("PROGRAM", program, 1);
    setenv("PAUSE", "0.2", 1);
    mpi_train(&e.m, 0, "whole", "");
    return e;
}

static void elastic_close(void) {
    unsetenv("NOISED_RANK_TIMEOUT");
    unsetenv("MPIRUN");
    unsetenv("PROGRAM");
    unsetenv("PAUSE");
}

/* Steps that were logged before the blow and are done again; 0 where the job came to its end before. */
static int steps_lost(const char *output, int logged) {
    const char *again = strstr(output, "; again from step ");
    return again ? logged - (int)strtol(again + strlen("; again from step "), NULL, 10) : 0;
}

/* Strikes once at a random step; behind it the job has other ranks, 1 to 6. */
static void trial(Elastic *e, const Blow *blow, Toll *toll) {
    Job j = {.e = e};
    const char *output;
    char args[2048];
    write_hosts(e, RANKS);
    mpi_args(args, &e->m, e->name, "");
    pid_t job =
        trainer_start_line(test_text("scripts/train_on_hosts.sh %s %s", e->hosts, args + strlen("pretrain ")), &output);
    bool there = mpi_find_ranks(job, j.ranks, RANKS);
    int at = (int)draw_below(&e->draws, STEPS - 2 * SAVE_EVERY), logged;
    while ((logged = mpi_log_lines(&e->m, e->name)) <= at && there && kill(j.ranks[0], 0) == 0) clock_sleep(0.002);
    int left = 1 + (int)draw_below(&e->draws, 6);
    write_hosts(e, left);
    if (there) blow->strike(&j, (int)draw_below(&e->draws, RANKS));
    ChildResult r = trainer_finish(job, output);
    CHECK_MSG(r.status == 0, "%s at step %d, then %d ranks: status %d: %s", blow->name, logged, left, r.status,
              r.output);
    if (there) mpi_check_gone(RANKS, j.ranks);
    mpi_check_same(&e->m, "whole", e->name);
    int lost = steps_lost(r.output, logged);
    /* A checkpoint is written while the next steps run, and is there when the following one begins (save.h). */
    CHECK_MSG(lost <= 2 * SAVE_EVERY, "%s at step %d: %d steps were lost: %s", blow->name, logged, lost, r.output);
    toll->trials += strstr(r.output, "; again from step ") != NULL;
    toll->lost = MAX(toll->lost, lost);
    free(r.output);
}

/* In a folder of its own, of a file system of its own if need be; false: none may be mounted. */
static bool trial_in_folder(Elastic *e, int number, const Blow *blow, Toll *toll) {
    snprintf(e->name, sizeof e->name, "run%d%s", number, blow->on_disk ? "/x" : "");
    const char *folder = test_text("%s/run%d", e->m.dir, number);
    if (!blow->on_disk) return trial(e, blow, toll), true;
    if (mkdir(folder, 0700) || mount("tmpfs", folder, "tmpfs", 0, "size=4m")) return false;
    trial(e, blow, toll);
    umount(folder);
    return true;
}

TEST(mpi_elastic) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *scale = getenv("SCALE"), *wanted = getenv("TRIALS");
    int trials = wanted ? atoi(wanted) : scale ? 100 : 1;
    test_takes_long();
    Elastic e = elastic_open();
    Toll tolls[BLOWS] = {0};
    for (int i = 0; i < trials; i++) {
        int b = trials == 1 ? (int)draw_below(&e.draws, BLOWS - 1) : i % BLOWS;
        if (!trial_in_folder(&e, i, &blows[b], &tolls[b])) printf("%s: no tmpfs may be mounted here\n", blows[b].name);
    }
    for (int b = 0; b < BLOWS && scale; b++)
        printf("| %s | %d | at most %d steps of %d |\n", blows[b].name, tolls[b].trials, tolls[b].lost, SAVE_EVERY);
    elastic_close();
}

TEST(mpi_elastic_takes_no_for_an_answer) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    const char *output;
    Elastic e = elastic_open();
    write_hosts(&e, 2);
    pid_t job = trainer_start_line(
        test_text("scripts/train_on_hosts.sh %s %s --data %s/none --out %s/x", e.hosts, e.m.args, e.m.dir, e.m.dir),
        &output);
    ChildResult r = trainer_finish(job, output);
    CHECK_MSG(r.status == 1 && mpi_lines(r.output) == 1 && !strstr(r.output, "again"), "status %d: %s", r.status,
              r.output);
    free(r.output);
    elastic_close();
}
