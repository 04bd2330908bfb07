/* hash_thread: a digest that is computed beside what else is done with the data, which is mostly writing them. */
#ifndef NOISED_HASH_THREAD_H
#define NOISED_HASH_THREAD_H

#include "base/sha256.h"

#include <pthread.h>

typedef struct HashThread {
    Sha256 hash;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const void *data; /* being hashed; NULL: none */
    size_t n;
    bool ended;
} HashThread;

/* Must not move in memory until hash_thread_end. */
int hash_thread_start(HashThread *h, Err *err);
/* Waits for the data before. These must stay as they are until the next call has returned. */
void hash_thread_add(HashThread *h, const void *data, size_t n);
void hash_thread_wait(HashThread *h); /* until all data are hashed */
void hash_thread_end(HashThread *h, char hex[SHA256_HEX]);

#endif
