/* The interposed library itself: build/fault.so. Built without anything of ours, for it lives in every program. */
#include "tests/faults/fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static Fault *fault; /* NULL until main */

/* Whether this call is one that shall fail. */
static bool strikes(FaultCall call) {
    if (!fault) return false;
    long k = ++fault->counted[call];
    return fault->call == (int)call && (fault->mode == FAULT_EVER ? k >= fault->nth : k == fault->nth);
}

static int fail(int error) {
    errno = error;
    return -1;
}

/* Of a call that moves *n bytes: -1 when it fails; half of them are left when it comes short. */
static int moves(FaultCall call, size_t *n, int error) {
    if (!strikes(call)) return 0;
    if (fault->mode != FAULT_SHORT) return fail(error);
    *n = (*n + 1) / 2;
    return 0;
}

/* The function that was called, as the next library has it. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* ---- memory ---- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n) { return strikes(FAULT_MALLOC) ? no_memory() : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return strikes(FAULT_MALLOC) ? no_memory() : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return strikes(FAULT_MALLOC) ? no_memory() : __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n) {
    return strikes(FAULT_MALLOC) ? no_memory() : __libc_memalign(alignment, n);
}
int posix_memalign(void **p, size_t alignment, size_t n) {
    *p = strikes(FAULT_MALLOC) ? no_memory() : __libc_memalign(alignment, n);
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

int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return strikes(FAULT_OPEN) ? fail(EMFILE) : openat(AT_FDCWD, path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) {
    if (!strikes(FAULT_OPEN)) return REAL(fopen)(path, mode);
    errno = EMFILE;
    return NULL;
}
ssize_t read(int fd, void *data, size_t n) { return moves(FAULT_READ, &n, EIO) ? -1 : syscall(SYS_read, fd, data, n); }
ssize_t pread(int fd, void *data, size_t n, off_t offset) {
    return moves(FAULT_READ, &n, EIO) ? -1 : syscall(SYS_pread64, fd, data, n, offset);
}
ssize_t write(int fd, const void *data, size_t n) {
    return moves(FAULT_WRITE, &n, ENOSPC) ? -1 : syscall(SYS_write, fd, data, n);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) {
    return moves(FAULT_WRITE, &n, ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, data, n, offset);
}
/* A stream into memory has no descriptor and no disk to be full. */
static bool flush_strikes(FILE *f) { return f && fileno(f) >= 0 && strikes(FAULT_FLUSH); }
int fflush(FILE *f) { return flush_strikes(f) ? fail(ENOSPC) : REAL(fflush)(f); }
int fclose(FILE *f) {
    bool failing = flush_strikes(f);
    int rc = REAL(fclose)(f);
    return failing ? fail(ENOSPC) : rc;
}
int fsync(int fd) { return strikes(FAULT_FSYNC) ? fail(EIO) : (int)syscall(SYS_fsync, fd); }
int rename(const char *from, const char *to) {
    return strikes(FAULT_RENAME) ? fail(EIO) : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- threads ---- */

int pthread_create(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    return strikes(FAULT_THREAD) ? EAGAIN : REAL(pthread_create)(id, how, run, with);
}

/* ---- from main on ---- */

static int (*real_main)(int, char **, char **);

/* libcrypto crashes when it finds no memory to begin with, which is its own affair. */
static void wake_libcrypto(void) {
    unsigned char digest[64];
    void *sha256 = dlsym(RTLD_DEFAULT, "EVP_sha256"), *hash = dlsym(RTLD_DEFAULT, "EVP_Digest");
    if (!sha256 || !hash) return;
    const void *kind = ((const void *(*)(void))sha256)();
    ((int (*)(const void *, size_t, unsigned char *, unsigned *, const void *, void *))hash)("", 0, digest, NULL, kind,
                                                                                             NULL);
}

static int main_with_faults(int argc, char **argv, char **environment) {
    const char *path = getenv("FAULT");
    int fd = path ? openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *fault, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 125;
    close(fd);
    wake_libcrypto();
    fault = at;
    return real_main(argc, argv, environment);
}

typedef int Start(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*linker)(void), void *stack);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*linker)(void), void *stack) {
    real_main = main;
    return ((Start *)dlsym(RTLD_NEXT, "__libc_start_main"))(main_with_faults, argc, argv, init, fini, linker, stack);
}
