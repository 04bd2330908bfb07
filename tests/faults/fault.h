/* fault: a library that a program is started with (LD_PRELOAD) and that lets its calls of the system fail, or come
 * short, at the n-th, once or from then on. What is to happen stands in a file that the environment's FAULT names; the
 * test and the program map it, so that a program that runs on can be told of one fault after the other. Calls before
 * main are let through. */
#ifndef NOISED_TEST_FAULT_H
#define NOISED_TEST_FAULT_H

#include <stdatomic.h>

typedef enum FaultCall {
    FAULT_MALLOC, /* ENOMEM; calloc, realloc and aligned ones too; not OpenMP's, which ends the process then */
    FAULT_OPEN,   /* EMFILE: whatever makes a descriptor, but for accept4 */
    FAULT_READ,   /* EIO, of files; short: half of what was asked for */
    FAULT_WRITE,  /* ENOSPC, of files; short: half */
    FAULT_FLUSH,  /* ENOSPC: fflush and fclose, whose writing inside libc nobody can see */
    FAULT_FSYNC,  /* EIO */
    FAULT_RENAME, /* EIO */
    FAULT_MMAP,   /* ENOMEM */
    FAULT_THREAD, /* EAGAIN: pthread_create but OpenMP's */
    FAULT_LISTEN, /* EADDRINUSE: bind and listen */
    FAULT_ACCEPT, /* EMFILE: accept4 */
    FAULT_EPOLL,  /* ENOMEM: epoll_ctl that adds, for nothing else of it can fail */
    FAULT_WAIT,   /* EINTR: epoll_wait */
    FAULT_RECV,   /* ECONNRESET: recvfrom; short: half of what was asked for */
    FAULT_SEND,   /* ECONNRESET: send and sendmsg; short: half */
    FAULT_CALLS
} FaultCall;

typedef enum FaultMode {
    FAULT_ONCE,
    FAULT_EVER,
    FAULT_SHORT,
    FAULT_MODES,
    FAULT_HANGS /* it never returns, as from a disk that is gone: for a test of its own */
} FaultMode;

typedef struct Fault {
    _Atomic int call; /* FAULT_CALLS: none */
    _Atomic int mode;
    _Atomic long nth; /* from 1 */
    _Atomic long counted[FAULT_CALLS];
    _Atomic unsigned char met[1 << 16]; /* by port: whether a call on the connection with this peer failed */
} Fault;

#endif
