/* The interposed library itself: build/fault.so. Built without anything of ours, for it lives in every program. */
#include "tests/faults/fault.h"
#include "tests/faults/record.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static Fault *fault; /* NULL until main */

/* Whether this call is one that shall fail. */
static bool strikes(FaultCall call) {
    if (!fault) return false;
    long k = ++fault->counted[call];
    bool struck = fault->call == (int)call && (fault->mode == FAULT_EVER ? k >= fault->nth : k == fault->nth);
    while (struck && fault->mode == FAULT_HANGS) pause();
    return struck;
}

static int fail(int error) {
    errno = error;
    return -1;
}

/* Of a call that moves *n bytes: -1 when it fails; half of them are left when it comes short. */
static int moves(bool struck, size_t *n, int error) {
    if (!struck) return 0;
    if (fault->mode != FAULT_SHORT) return fail(error);
    *n = (*n + 1) / 2;
    return 0;
}

/* A call on a connection whose peer shall know that it was met. */
static bool strikes_peer(FaultCall call, int fd) {
    struct sockaddr_in peer = {0};
    if (!strikes(call)) return false;
    if (getpeername(fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) == 0 && peer.sin_family == AF_INET)
        fault->met[ntohs(peer.sin_port)] = 1;
    return true;
}

/* The function that was called, as the next library has it. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* ---- memory ---- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

/* OpenMP ends the process when it gets no memory or no thread: what it asks for it gets, and what libc asks for to make
 * a thread of it. */
static __attribute__((tls_model("initial-exec"))) _Thread_local bool makes_openmp;
static bool is_openmp(const void *caller) {
    Dl_info from;
    return makes_openmp || (dladdr(caller, &from) && strstr(from.dli_fname, "libgomp"));
}
static bool refuses(FaultCall call, const void *caller) { return strikes(call) && !is_openmp(caller); }
#define NO_MEMORY refuses(FAULT_MALLOC, __builtin_return_address(0))

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n) { return NO_MEMORY ? no_memory() : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return NO_MEMORY ? no_memory() : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return NO_MEMORY ? no_memory() : __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n) { return NO_MEMORY ? no_memory() : __libc_memalign(alignment, n); }
int posix_memalign(void **p, size_t alignment, size_t n) {
    *p = NO_MEMORY ? no_memory() : __libc_memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    if (strikes(FAULT_MMAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

/* ---- files ---- */

/* What may be written from now on. */
static void opened(int fd, bool was_there, bool emptied) {
    if (!was_there) record_file(RECORD_CREATE, fd, NULL, 0, 0);
    if (was_there && emptied) record_file(RECORD_TRUNCATE, fd, NULL, 0, 0);
}
static int open_in(int folder, const char *path, int flags, va_list mode_if_any) {
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(mode_if_any, mode_t) : 0;
    if (strikes(FAULT_OPEN)) return fail(EMFILE);
    bool creates = record_on() && flags & O_CREAT;
    bool there = creates && syscall(SYS_faccessat, folder, path, F_OK) == 0;
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0 && creates) opened(fd, there, flags & O_TRUNC);
    return fd;
}
int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    int fd = open_in(AT_FDCWD, path, flags, ap);
    va_end(ap);
    return fd;
}
int openat(int folder, const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    int fd = open_in(folder, path, flags, ap);
    va_end(ap);
    return fd;
}
FILE *fopen(const char *path, const char *mode) {
    bool creates = record_on() && *mode != 'r', there = creates && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    if (strikes(FAULT_OPEN)) return errno = EMFILE, NULL;
    FILE *f = REAL(fopen)(path, mode);
    if (f && creates) opened(fileno(f), there, *mode == 'w');
    return f;
}
int socket(int domain, int type, int protocol) {
    return strikes(FAULT_OPEN) ? fail(EMFILE) : (int)syscall(SYS_socket, domain, type, protocol);
}
int socketpair(int domain, int type, int protocol, int pair[2]) {
    return strikes(FAULT_OPEN) ? fail(EMFILE) : (int)syscall(SYS_socketpair, domain, type, protocol, pair);
}
int eventfd(unsigned count, int flags) {
    return strikes(FAULT_OPEN) ? fail(EMFILE) : (int)syscall(SYS_eventfd2, count, flags);
}
int epoll_create1(int flags) { return strikes(FAULT_OPEN) ? fail(EMFILE) : (int)syscall(SYS_epoll_create1, flags); }
int memfd_create(const char *name, unsigned flags) {
    return strikes(FAULT_OPEN) ? fail(EMFILE) : (int)syscall(SYS_memfd_create, name, flags);
}
int fcntl(int fd, int command, ...) {
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    return command == F_DUPFD_CLOEXEC && strikes(FAULT_OPEN) ? fail(EMFILE)
                                                             : (int)syscall(SYS_fcntl, fd, command, argument);
}
/* An eventfd neither fails nor comes short. */
static bool is_file(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT);
}
ssize_t read(int fd, void *data, size_t n) {
    return is_file(fd) && moves(strikes(FAULT_READ), &n, EIO) ? -1 : syscall(SYS_read, fd, data, n);
}
ssize_t pread(int fd, void *data, size_t n, off_t offset) {
    return moves(strikes(FAULT_READ), &n, EIO) ? -1 : syscall(SYS_pread64, fd, data, n, offset);
}
ssize_t write(int fd, const void *data, size_t n) {
    if (is_file(fd) && moves(strikes(FAULT_WRITE), &n, ENOSPC)) return -1;
    ssize_t wrote = syscall(SYS_write, fd, data, n);
    if (wrote > 0 && record_on())
        record_file(RECORD_WRITE, fd, data, (size_t)wrote, syscall(SYS_lseek, fd, 0, SEEK_CUR) - wrote);
    return wrote;
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
    if (moves(strikes(FAULT_WRITE), &n, ENOSPC)) return -1;
    ssize_t wrote = syscall(SYS_pwrite64, fd, data, n, offset);
    if (wrote > 0 && record_on()) record_file(RECORD_WRITE, fd, data, (size_t)wrote, offset);
    return wrote;
}
/* A stream into memory has no descriptor and no disk to be full. */
static bool flush_strikes(FILE *f) { return f && fileno(f) >= 0 && strikes(FAULT_FLUSH); }
static off_t size_of(FILE *f) {
    struct stat st;
    return f && record_on() && fileno(f) >= 0 && fstat(fileno(f), &st) == 0 ? st.st_size : 0;
}
int fflush(FILE *f) {
    off_t before = size_of(f);
    if (flush_strikes(f)) return fail(ENOSPC);
    int rc = REAL(fflush)(f);
    if (f && record_on()) record_grown(fileno(f), before);
    return rc;
}
int fclose(FILE *f) {
    bool failing = flush_strikes(f);
    if (record_on()) fflush(f);
    int rc = REAL(fclose)(f);
    return failing ? fail(ENOSPC) : rc;
}
int fsync(int fd) {
    if (strikes(FAULT_FSYNC)) return fail(EIO);
    if (record_on()) record_file(RECORD_SYNC, fd, NULL, 0, 0);
    return (int)syscall(SYS_fsync, fd);
}
int rename(const char *from, const char *to) {
    if (strikes(FAULT_RENAME)) return fail(EIO);
    int rc = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (rc == 0 && record_on()) record_paths(RECORD_RENAME, AT_FDCWD, from, to);
    return rc;
}
int mkdir(const char *path, mode_t mode) {
    int rc = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (rc == 0 && record_on()) record_paths(RECORD_MKDIR, AT_FDCWD, path, NULL);
    return rc;
}
int unlinkat(int folder, const char *path, int flags) {
    int rc = (int)syscall(SYS_unlinkat, folder, path, flags);
    if (rc == 0 && record_on()) record_paths(RECORD_REMOVE, folder, path, NULL);
    return rc;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

/* ---- threads ---- */

int pthread_create(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    const void *caller = __builtin_return_address(0);
    if (refuses(FAULT_THREAD, caller)) return EAGAIN;
    makes_openmp = is_openmp(caller);
    int rc = REAL(pthread_create)(id, how, run, with);
    makes_openmp = false;
    return rc;
}

/* ---- sockets ---- */

int bind(int fd, const struct sockaddr *at, socklen_t n) {
    return strikes(FAULT_LISTEN) ? fail(EADDRINUSE) : (int)syscall(SYS_bind, fd, at, n);
}
int listen(int fd, int n) { return strikes(FAULT_LISTEN) ? fail(EADDRINUSE) : (int)syscall(SYS_listen, fd, n); }
int accept4(int fd, struct sockaddr *from, socklen_t *n, int flags) {
    return strikes(FAULT_ACCEPT) ? fail(EMFILE) : (int)syscall(SYS_accept4, fd, from, n, flags);
}
/* Who waits for room in a socket. A send comes short where there is none, so that it is back must be told. */
static struct {
    int epoll;
    struct epoll_event event;
} waiting[1024];

int epoll_ctl(int fd, int what, int of, struct epoll_event *event) {
    if (what == EPOLL_CTL_ADD && strikes_peer(FAULT_EPOLL, of)) return fail(ENOMEM);
    if (what != EPOLL_CTL_DEL && event->events & EPOLLOUT && of < 1024)
        waiting[of].epoll = fd, waiting[of].event = *event;
    return (int)syscall(SYS_epoll_ctl, fd, what, of, event);
}
static ssize_t send_half(int fd, const void *data, size_t n, int flags) {
    ssize_t sent = syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
    if (fd < 1024 && waiting[fd].epoll)
        syscall(SYS_epoll_ctl, waiting[fd].epoll, EPOLL_CTL_MOD, fd, &waiting[fd].event);
    return sent;
}
int epoll_wait(int fd, struct epoll_event *events, int n, int timeout) {
    return strikes(FAULT_WAIT) ? fail(EINTR) : REAL(epoll_wait)(fd, events, n, timeout);
}
/* recv itself is the daemon's own (server/http/library.h), which reads by this one. */
ssize_t recvfrom(int fd, void *data, size_t n, int flags, struct sockaddr *from, socklen_t *n_from) {
    return moves(strikes_peer(FAULT_RECV, fd), &n, ECONNRESET)
               ? -1
               : syscall(SYS_recvfrom, fd, data, n, flags, from, n_from);
}
ssize_t __recvfrom_chk(int fd, void *data, size_t n, size_t room, int flags, struct sockaddr *from, socklen_t *n_from) {
    return n > room ? fail(EFAULT) : recvfrom(fd, data, n, flags, from, n_from);
}
ssize_t send(int fd, const void *data, size_t n, int flags) {
    size_t all = n;
    if (moves(strikes_peer(FAULT_SEND, fd), &n, ECONNRESET)) return -1;
    return n < all ? send_half(fd, data, n, flags) : syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    size_t n = message->msg_iovlen ? message->msg_iov[0].iov_len : 0, all = n;
    if (moves(strikes_peer(FAULT_SEND, fd), &n, ECONNRESET)) return -1;
    return n < all ? send_half(fd, message->msg_iov[0].iov_base, n, flags) : syscall(SYS_sendmsg, fd, message, flags);
}

/* ---- from main on ---- */

static int (*real_main)(int, char **, char **);

static int main_with_faults(int argc, char **argv, char **environment) {
    const char *path = getenv("FAULT");
    int fd = path ? openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 125;
    close(fd);
    fault = at;
    record_begin();
    return real_main(argc, argv, environment);
}

typedef int Start(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*linker)(void), void *stack);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*linker)(void), void *stack) {
    real_main = main;
    return ((Start *)dlsym(RTLD_NEXT, "__libc_start_main"))(main_with_faults, argc, argv, init, fini, linker, stack);
}
