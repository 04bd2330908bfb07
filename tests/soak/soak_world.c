#include "tests/soak/soak_world.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a reader of the log that stalls ---- */

static void *read_log(void *arg) {
    static const double READS = 10, STALLS = 10; /* seconds, by turns */
    LogReader *r = arg;
    char block[65536];
    double stall = now_seconds() + READS;
    while (!atomic_load(&r->over)) {
        if (now_seconds() > stall) {
            for (double until = now_seconds() + STALLS; now_seconds() < until && !atomic_load(&r->over);) usleep(50000);
            r->stalls++;
            stall = now_seconds() + READS;
        }
        ssize_t n = read(r->fd, block, sizeof block);
        for (ssize_t i = 0; i < n; i++) r->lines += block[i] == '\n';
        if (n <= 0) usleep(10000);
    }
    return NULL;
}

void log_reader_start(LogReader *r, const char *dir) {
    *r = (LogReader){0};
    snprintf(r->path, sizeof r->path, "%s/log", dir);
    BUG_ON(mkfifo(r->path, 0600));
    r->fd = open(r->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    BUG_ON(r->fd < 0 || pthread_create(&r->thread, NULL, read_log, r));
}

void log_reader_end(LogReader *r) {
    atomic_store(&r->over, true);
    pthread_join(r->thread, NULL);
    close(r->fd);
}

/* ---- a control group with little memory ---- */

static const char v1[] = "/sys/fs/cgroup/memory", v2[] = "/sys/fs/cgroup";

static bool write_file(const char *dir, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    bool good = f && fputs(text, f) >= 0;
    if (f) good = fclose(f) == 0 && good;
    return good;
}

static double read_number(const char *dir, const char *name) {
    char path[512];
    double x = -1;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf", &x) != 1) x = -1;
    if (f) fclose(f);
    return x;
}

static bool is_v1(const Pressure *p) { return !strncmp(p->group, v1, sizeof v1 - 1); }

/* The folder of the group that this process is in. */
static void find_home(char home[256]) {
    char line[256];
    FILE *f = fopen("/proc/self/cgroup", "r");
    snprintf(home, 256, "%s", access(v1, F_OK) ? v2 : v1);
    while (f && fgets(line, sizeof line, f)) {
        char *path = strchr(line, '/');
        if (!path || (strstr(line, ":memory:") == NULL) != (access(v1, F_OK) != 0)) continue;
        path[strcspn(path, "\n")] = 0;
        snprintf(home, 256, "%.*s%.200s", 40, access(v1, F_OK) ? v2 : v1, path);
    }
    if (f) fclose(f);
}

static bool make_file(const Pressure *p, size_t bytes) {
    static char block[1 << 20];
    int fd = open(p->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (size_t n = 0; n < bytes && good; n += sizeof block) good = write(fd, block, sizeof block) == sizeof block;
    good = good && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    return good;
}

bool pressure_open(Pressure *p, const char *dir) {
    enum { FILE_BYTES = 256 << 20 };
    char self[32];
    *p = (Pressure){0};
    find_home(p->home);
    snprintf(self, sizeof self, "%d", (int)getpid());
    snprintf(p->group, sizeof p->group, "%s/noised-soak-%s", access(v1, F_OK) ? v2 : v1, self);
    snprintf(p->file, sizeof p->file, "%s/large", dir);
    if (mkdir(p->group, 0755) == 0) {
        if (make_file(p, FILE_BYTES) && write_file(p->group, "cgroup.procs", self)) return true;
        write_file(p->home, "cgroup.procs", self);
        rmdir(p->group);
    }
    *p->group = 0;
    return false;
}

void pressure_leave(Pressure *p, double spare_mb) {
    char text[32];
    if (!*p->group) return;
    snprintf(text, sizeof text, "%d", (int)getpid());
    CHECK_MSG(write_file(p->home, "cgroup.procs", text), "cannot go back to %s", p->home);
    double used = read_number(p->group, is_v1(p) ? "memory.usage_in_bytes" : "memory.current");
    p->limit_mb = used / (1 << 20) + spare_mb;
    snprintf(text, sizeof text, "%.0f", p->limit_mb * (1 << 20));
    CHECK_MSG(write_file(p->group, is_v1(p) ? "memory.limit_in_bytes" : "memory.max", text), "no limit of %s", text);
}

void pressure_round(Pressure *p) {
    if (!*p->group) return;
    int fd = open(p->file, O_RDONLY | O_CLOEXEC);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* or its pages stay those of who read them first */
    pid_t child = fork();
    if (child == 0) {
        char self[32];
        static char block[1 << 16];
        snprintf(self, sizeof self, "%d", (int)getpid());
        bool in = write_file(p->group, "cgroup.procs", self);
        while (in && read(fd, block, sizeof block) > 0) {}
        _exit(!in);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    close(fd);
    p->rounds++;
}

void pressure_close(Pressure *p) {
    if (*p->group) CHECK_MSG(rmdir(p->group) == 0, "%s: %s", p->group, strerror(errno));
}

/* ---- a clock that is set ---- */

void clock_open(Clock *c, const char *dir) {
    static const char library[] = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    *c = (Clock){0};
    if (access(library, R_OK)) return;
    snprintf(c->path, sizeof c->path, "%s/clock", dir);
    clock_jump(c, 0);
    setenv("LD_PRELOAD", library, 1);
    setenv("FAKETIME_TIMESTAMP_FILE", c->path, 1);
    setenv("FAKETIME_CACHE_DURATION", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1); /* no setting of a clock moves that one, */
    setenv("NO_FAKE_STAT", "1", 1);                 /* nor the times of files */
}

void clock_jump(Clock *c, int round) {
    static const char *const offsets[] = {"+0", "+3600", "-3600", "+86400", "-40000000", "+400000000", "-1"};
    if (!*c->path) return;
    char *slash = strrchr(c->path, '/'), dir[256];
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - c->path), c->path);
    CHECK(write_file(dir, "clock", offsets[round % (int)COUNTOF(offsets)]));
    c->jumps++;
}

void clock_close(void) { unsetenv("LD_PRELOAD"); }

/* ---- two checkpoints behind one name ---- */

static void site_path(const Site *s, char path[300], const char *name) { snprintf(path, 300, "%s/%s", s->dir, name); }

/* As an operator would: a new link, renamed over the old one. */
void site_point(Site *s, int version) {
    char fresh[300];
    site_path(s, fresh, "fresh");
    CHECK(symlink(version ? "b" : "a", fresh) == 0 && rename(fresh, s->live) == 0);
    s->at = version;
}

void site_replace(Site *s) {
    char command[1024];
    snprintf(command, sizeof command, "cd %s && cp model.safetensors copy && mv copy model.safetensors", s->live);
    CHECK_MSG(system(command) == 0, "%s", command);
    s->replaced++;
}

bool site_open(Site *s, TestCheckpoint kind, const char *options) {
    char a[300], b[300];
    *s = (Site){.dir = test_dir()};
    site_path(s, s->live, "live");
    site_path(s, a, "a");
    site_path(s, b, "b");
    if (!test_checkpoint_write(a, kind, 1) || !test_checkpoint_write(b, kind, 2)) return false;
    site_point(s, 0);
    return daemon_start_at(&s->daemon, s->live, options);
}

void site_close(Site *s) { daemon_stop(&s->daemon); }
