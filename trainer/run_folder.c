#include "trainer/run_folder.h"

#include "base/err.h"
#include "base/files.h"
#include "weights/carry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static bool is_temporary(const char *name) {
    static const char *const written[] = {
        RUN_OPTIMIZER ".tmp", RUN_STATE ".tmp", RUN_MASTERS ".tmp", "config.json.tmp", "model.safetensors.tmp",
        "tokenizer.json.tmp", "tokens.bin.tmp", "log.jsonl.tmp",    "plot.svg.tmp",    "results.json.tmp"};
    for (size_t i = 0; i < COUNTOF(written); i++)
        if (!strcmp(name, written[i])) return true;
    for (size_t i = 0; carried_files[i]; i++) {
        size_t n = strlen(carried_files[i]);
        if (!strncmp(name, carried_files[i], n) && !strcmp(name + n, ".tmp")) return true;
    }
    return false;
}

/* What a run writes before its first trainer_state.json; its log has no line then. */
static const char *const early[] = {"tokenizer.json", "tokens.bin", "log.jsonl", RUN_OPTIMIZER};

static bool is_early(const char *name) {
    for (size_t i = 0; i < COUNTOF(early); i++)
        if (!strcmp(name, early[i])) return true;
    for (size_t i = 0; carried_files[i]; i++)
        if (!strcmp(name, carried_files[i])) return true;
    return false;
}

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

static bool is_leftover(const char *name) { return is_early(name) || is_temporary(name) || !strcmp(name, RUN_UNSAVED); }

/* Without a saved run nothing may be in it but what a start has left. */
static int check_empty(const RunFolder *f, DIR *d, bool resume, Err *err) {
    const struct dirent *e;
    bool begun = faccessat(f->lock, RUN_UNSAVED, F_OK, 0) == 0;
    while ((e = readdir(d))) {
        if (is_dots(e->d_name) || (begun && is_leftover(e->d_name))) continue;
        if (!resume) return err_set(err, "--out %s is not empty (%.100s); --resume continues a run", f->dir, e->d_name);
        return err_set(err, "--resume: %s holds %.100s, but no %s to continue from", f->dir, e->d_name, RUN_STATE);
    }
    if (begun) printf("%s: what a start left that was stopped before it saved is removed\n", f->dir);
    return 0;
}

/* Of a saved run the temporaries; without one all, but for the sign that all of it may go. */
static int remove_leftovers(const RunFolder *f, DIR *d, Err *err) {
    const struct dirent *e;
    rewinddir(d);
    while ((e = readdir(d)))
        if ((is_temporary(e->d_name) || (!f->saved && is_early(e->d_name))) && unlinkat(f->lock, e->d_name, 0) < 0)
            return err_set(err, "%s/%s: %s", f->dir, e->d_name, strerror(errno));
    return 0;
}

/* Nothing of a start may outlive the power but for this. */
static int sign_unsaved(const RunFolder *f, Err *err) {
    int fd = openat(f->lock, RUN_UNSAVED, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    int rc = fd < 0 || fsync(f->lock) < 0 ? err_set(err, "%s/" RUN_UNSAVED ": %s", f->dir, strerror(errno)) : 0;
    if (fd >= 0) close(fd);
    return rc;
}

void run_settle(const char *dir) {
    char path[PATH_BYTES];
    if (path_join(path, dir, RUN_UNSAVED, NULL) == 0) unlink(path);
}

static int lock_folder(const char *dir, int *lock, Err *err) {
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return err_set(err, "%s: %s", dir, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EWOULDBLOCK) return err_set(err, "--out %s: another noised-train is at work in it", dir);
    return err_set(err, "%s: flock: %s", dir, strerror(errno));
}

static int look_inside(RunFolder *f, bool resume, Err *err) {
    DIR *d = opendir(f->dir);
    if (!d) return err_set(err, "%s: %s", f->dir, strerror(errno));
    int rc = f->saved ? 0 : check_empty(f, d, resume, err);
    if (rc == 0) rc = remove_leftovers(f, d, err);
    closedir(d);
    f->ours = rc == 0 && !f->saved;
    if (f->saved) run_settle(f->dir); /* where a kill came between the two */
    return f->ours ? sign_unsaved(f, err) : rc;
}

int run_open(RunFolder *f, const char *dir, bool resume, Err *err) {
    char path[PATH_BYTES];
    *f = (RunFolder){.dir = dir, .lock = -1};
    if (path_join(path, dir, RUN_STATE, err) || folder_create(dir, &f->made, err)) return -1;
    f->saved = resume && access(path, F_OK) == 0;
    if (lock_folder(dir, &f->lock, err) == 0 && look_inside(f, resume, err) == 0) return 0;
    run_withdraw(f);
    return -1;
}

void run_withdraw(const RunFolder *f) {
    for (size_t i = 0; i < COUNTOF(early) && f->ours; i++) unlinkat(f->lock, early[i], 0);
    if (f->ours) {
        unlinkat(f->lock, RUN_STATE, 0);
        carry_withdraw(f->dir);
        run_settle(f->dir);
    }
    folder_remove(f->dir, f->made);
}

void run_close(RunFolder *f) {
    if (f->lock >= 0) close(f->lock);
    f->lock = -1;
}
