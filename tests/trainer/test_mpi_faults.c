/* Ranks that die, are stopped or find no room: all end, and what is on the disk goes on to the same bytes. */
#include "base/clock.h"
#include "base/random.h"
#include "tests/support/test.h"
#include "tests/trainer/test_mpi.h"
#include "tests/trainer/test_trainer.h"
#include "weights/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, STEPS = 8, HOLD = 0, QUOTA = -1 /* no signals, but hold() and mpi_deny_writes() */ };
enum { RANK_LOST = 75 }; /* EXIT_RANK_LOST of noised-train-mpi */

/* ---- the ranks of a job ---- */

/* Of a process; 0: it is gone. */
static pid_t parent_of(pid_t pid, char name[32]) {
    char line[256] = "";
    int parent = 0;
    FILE *f = fopen(test_text("/proc/%d/stat", (int)pid), "re");
    if (!f) return 0;
    bool read = fgets(line, sizeof line, f) && sscanf(line, "%*d (%31[^)]) %*c %d", name, &parent) == 2;
    fclose(f);
    return read ? parent : 0;
}

static bool is_rank_of(pid_t pid, pid_t job) {
    char name[32], other[32];
    pid_t parent = parent_of(pid, name);
    return parent && !strncmp(name, "noised-train", 12) && (parent == job || parent_of(parent, other) == job);
}

bool mpi_find_ranks(pid_t job, pid_t *found, int n) {
    siginfo_t ended = {0};
    for (;; clock_sleep(0.01)) {
        DIR *d = opendir("/proc");
        const struct dirent *e;
        int seen = 0;
        while (d && seen < n && (e = readdir(d)))
            if (is_rank_of((pid_t)atoi(e->d_name), job)) found[seen++] = (pid_t)atoi(e->d_name);
        if (d) closedir(d);
        if (seen == n) return true;
        if (waitid(P_PID, (id_t)job, &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid == job) return false;
    }
}

void mpi_check_gone(int n, const pid_t *found) {
    for (int i = 0; i < n; i++) {
        double end = now_seconds() + PATIENCE;
        while (kill(found[i], 0) == 0 && now_seconds() < end) clock_sleep(0.01);
        CHECK_MSG(kill(found[i], 0) < 0, "process %d is left", (int)found[i]);
    }
}

int mpi_log_lines(const MpiRun *m, const char *name) {
    int lines = 0;
    char *text = test_read_file(test_text("%s/%s/log.jsonl", m->dir, name), NULL);
    for (const char *p = text; p && (p = strchr(p, '\n')); p++) lines++;
    free(text);
    return lines;
}

/* Stops the first thread of a process and no other, as a file system does that no longer answers. */
static void hold(pid_t victim) {
    int status = 0;
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid) return;
    if (ptrace(PTRACE_SEIZE, victim, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, victim, 0, 0) == 0)
        while (waitpid(victim, &status, __WALL) == victim && WIFSTOPPED(status)) {}
    _exit(0);
}

void mpi_deny_writes(pid_t victim) {
    const struct rlimit none = {0};
    CHECK(prlimit(victim, RLIMIT_FSIZE, &none, NULL) == 0 || errno == ESRCH); /* it may be faster */
}

static void hit(pid_t victim, int signal_number) {
    if (signal_number == HOLD)
        hold(victim);
    else if (signal_number == QUOTA)
        mpi_deny_writes(victim);
    else
        kill(victim, signal_number);
}

/* Sends a signal to one of four ranks `delay` seconds after the log has grown, or the run has ended. */
static ChildResult run_hit(const MpiRun *m, const char *name, int victim, int signal_number, double delay) {
    const char *output;
    char args[2048];
    pid_t found[RANKS];
    int before = mpi_log_lines(m, name);
    mpi_args(args, m, name, "--resume --save-every 1");
    pid_t mpirun = trainer_start_ranks(RANKS, args, &output);
    bool there = mpi_find_ranks(mpirun, found, RANKS);
    while (there && mpi_log_lines(m, name) <= before && kill(found[0], 0) == 0) clock_sleep(0.002);
    clock_sleep(delay);
    if (there) hit(found[victim], signal_number);
    double started = now_seconds();
    ChildResult r = trainer_finish(mpirun, output);
    CHECK_MSG(now_seconds() - started < PATIENCE, "it took %.0f s to end", now_seconds() - started);
    if (there) mpi_check_gone(RANKS, found);
    return r;
}

/* The same, in a run of its own each time, until the signal finds it running; its name. */
static ChildResult run_hit_in_time(const MpiRun *m, char name[16], int victim, int signal_number) {
    ChildResult r = {0};
    for (int try = 0; try < TRIES && r.status == 0; try++) {
        free(r.output);
        snprintf(name, 16, "run%d", try);
        r = run_hit(m, name, victim, signal_number, 0);
    }
    return r;
}

static MpiRun faults_open(void) {
    MpiRun m = mpi_open("");
    snprintf(m.args, sizeof m.args, "--config %s --batch 1 --accumulate 8 --steps %d --warmup 4 --threads 1", m.config,
             STEPS);
    mpi_train(&m, 0, "whole", "");
    return m;
}

static void check_whole_file(const MpiRun *m, const char *name) {
    SafeFile f;
    Err err;
    int rc = safe_open(&f, test_text("%s/%s/optimizer.safetensors", m->dir, name), &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    if (rc == 0) safe_close(&f);
}

TEST(mpi_killed_ranks) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    test_takes_long();
    int trials = getenv("SCALE") ? 50 : 1, run = 0;
    MpiRun m = faults_open();
    Draws d = draws_open((uint64_t)getpid(), DRAW_TEST, 4);
    char name[16] = "run0";
    for (int killed = 0, tried = 0; killed < trials && tried < 4 * trials; tried++) {
        ChildResult r = run_hit(&m, name, (int)draw_below(&d, RANKS), SIGKILL, 0.3 * draw_uniform(&d));
        killed += r.status != 0;
        CHECK_MSG(r.status == 0 || r.status == 128 + SIGKILL, "status %d: %s", r.status, r.output);
        free(r.output);
        check_whole_file(&m, name);
        if (r.status) continue;
        mpi_check_same(&m, "whole", name);
        snprintf(name, sizeof name, "run%d", ++run);
    }
    mpi_train(&m, 2, name, "--resume");
    mpi_check_same(&m, "whole", name);
}

TEST(mpi_stopped_rank) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = faults_open();
    char name[16];
    ChildResult r = run_hit_in_time(&m, name, 2, SIGTERM);
    CHECK_MSG(r.status == 128 + SIGTERM && strstr(r.output, "stopped by signal 15: saved"), "status %d: %s", r.status,
              r.output);
    free(r.output);
    mpi_train(&m, 4, name, "--resume");
    mpi_check_same(&m, "whole", name);
}

/* One that hangs beats no more: the others end, and say whom they waited for. */
TEST(mpi_hung_rank) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = faults_open();
    char name[16];
    setenv("NOISED_RANK_TIMEOUT", "3", 1);
    ChildResult r = run_hit_in_time(&m, name, 1, SIGSTOP);
    unsetenv("NOISED_RANK_TIMEOUT");
    CHECK_MSG(r.status == RANK_LOST, "status %d: %s", r.status, r.output);
    CHECK_MSG(mpi_lines(r.output) == 1 && strstr(r.output, "which has given no sign of life for 3 s"), "%s", r.output);
    free(r.output);
    mpi_train(&m, 3, name, "--resume");
    mpi_check_same(&m, "whole", name);
}

/* It beats, but its work stands still. */
TEST(mpi_still_rank) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    if (!getenv("SCALE")) SKIP("long: SCALE=1");
    MpiRun m = faults_open();
    char name[16];
    setenv("NOISED_RANK_TIMEOUT", "1", 1);
    ChildResult r = run_hit_in_time(&m, name, 1, HOLD);
    unsetenv("NOISED_RANK_TIMEOUT");
    CHECK_MSG(r.status == RANK_LOST && strstr(r.output, "it has done nothing for 10 s"), "status %d: %s", r.status,
              r.output);
    free(r.output);
}

/* All write a checkpoint; what one of them cannot write is no checkpoint, and that one is named. */
TEST(mpi_full_disk_of_one_rank) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = faults_open();
    char name[16];
    ChildResult r = run_hit_in_time(&m, name, 2, QUOTA);
    CHECK_MSG(r.status == 1 && mpi_lines(r.output) == 1 &&
                  strstr(r.output, "optimizer.safetensors.tmp: File too large"),
              "status %d: %s", r.status, r.output);
    free(r.output);
    check_whole_file(&m, name);
    mpi_train(&m, 3, name, "--resume");
    mpi_check_same(&m, "whole", name);
}

/* All but `leave` bytes of the file system. */
void mpi_fill(const char *path, long leave) {
    enum { PIECE = 4096 };
    char piece[PIECE] = {0};
    long n = 0;
    FILE *f = fopen(path, "we");
    REQUIRE(f);
    setvbuf(f, NULL, _IONBF, 0);
    while (fwrite(piece, 1, PIECE, f) == PIECE) n += PIECE;
    CHECK(ftruncate(fileno(f), n - leave) == 0);
    fclose(f);
}

TEST(mpi_full_disk) {
    if (trainer_ranks_missing()) SKIP(trainer_ranks_missing());
    MpiRun m = faults_open();
    const char *run = test_text("%s/run", m.dir);
    char args[2048], filler[1024];
    if (mkdir(run, 0700) || mount("tmpfs", run, "tmpfs", 0, "size=4m")) {
        SKIP("no tmpfs may be mounted here");
    }
    mpi_args(args, &m, "run/x", "--save-every 4");
    snprintf(filler, sizeof filler, "%s/filler", run);
    ChildResult r = {0};
    pid_t found[RANKS];
    for (int try = 0; try < TRIES && r.status == 0; try++) { /* it may be faster */
        const char *output;
        test_remove(test_text("%s/x", run));
        test_remove(filler);
        free(r.output);
        pid_t mpirun = trainer_start_ranks(RANKS, args, &output);
        CHECK(mpi_find_ranks(mpirun, found, RANKS));
        while (mpi_log_lines(&m, "run/x") < 1 && kill(found[0], 0) == 0) clock_sleep(0.002);
        mpi_fill(filler, 16384);
        r = trainer_finish(mpirun, output);
    }
    CHECK_MSG(r.status == 1 && strstr(r.output, "No space left on device"), "status %d: %s", r.status, r.output);
    free(r.output);
    mpi_check_gone(RANKS, found);
    check_whole_file(&m, "run/x");
    unlink(filler);
    mpi_train(&m, 4, "run/x", "--resume");
    mpi_check_same(&m, "whole", "run/x");
    umount(run);
}
