#include "tests/faults/faults.h"

#include "base/macros.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fault_calls[FAULT_CALLS] = {"malloc", "open",   "read",   "write", "flush", "fsync", "rename", "mmap",
                                              "thread", "listen", "accept", "epoll", "wait",  "recv",  "send"};
const char *const fault_modes[FAULT_MODES] = {"once", "for ever", "short"};

void fault_set(Fault *f, FaultCall call, FaultMode mode, long nth) {
    fault_rest(f);
    for (int i = 0; i < FAULT_CALLS; i++) f->counted[i] = 0;
    memset((void *)f->met, 0, sizeof f->met);
    f->mode = mode;
    f->nth = nth;
    f->call = call;
}

void fault_rest(Fault *f) { f->call = FAULT_CALLS; }

Fault *fault_file(const char *dir) {
    int fd = open(test_text("%s/fault", dir), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    BUG_ON(fd < 0 || ftruncate(fd, sizeof(Fault)));
    Fault *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    BUG_ON(f == MAP_FAILED);
    close(fd);
    fault_rest(f);
    return f;
}

void fault_over_programs(const char *dir) {
    const char *build = getenv("BUILD");
    char path[300], library[PATH_MAX + 20], *top = realpath(build ? build : "build", NULL);
    snprintf(path, sizeof path, "%s/fault", dir ? dir : "");
    snprintf(library, sizeof library, "%s/fault.so", top);
    free(top);
    if (!dir) return (void)(unsetenv("LD_PRELOAD"), unsetenv("FAULT"));
    setenv("LD_PRELOAD", library, 1);
    setenv("FAULT", path, 1);
}

bool fault_has_mode(FaultCall call, FaultMode mode) {
    bool moves = call == FAULT_READ || call == FAULT_WRITE || call == FAULT_RECV || call == FAULT_SEND;
    return mode == FAULT_ONCE || (mode == FAULT_EVER && call != FAULT_WAIT) || (mode == FAULT_SHORT && moves);
}

void fault_describe(char text[100], const char *what, FaultCall call, FaultMode mode, long nth) {
    const char *name = call < FAULT_CALLS ? fault_calls[call] : "no call";
    snprintf(text, 100, "%s, %s %ld %s", what, name, nth, fault_modes[mode]);
}

bool faults_all(void) {
    const char *which = getenv("FAULTS");
    return which && !strcmp(which, "all");
}

/* The first few and the last, where most is decided, and strides between. */
long fault_next(long n, long count) {
    enum { EACH = 3 };
    if (faults_all() || n < EACH || n > count - EACH) return n + 1;
    return MIN(n + MAX(1, count / 5), count - EACH + 1);
}
