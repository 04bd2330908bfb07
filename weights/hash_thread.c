#include "weights/hash_thread.h"

#include <string.h>

static void *run(void *arg) {
    HashThread *h = arg;
    pthread_mutex_lock(&h->mutex);
    while (h->data || !h->ended) {
        if (h->data) {
            pthread_mutex_unlock(&h->mutex);
            sha256_add(&h->hash, h->data, h->n);
            pthread_mutex_lock(&h->mutex);
            h->data = NULL;
            pthread_cond_signal(&h->changed);
        } else {
            pthread_cond_wait(&h->changed, &h->mutex);
        }
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}

static void destroy(HashThread *h) {
    pthread_mutex_destroy(&h->mutex);
    pthread_cond_destroy(&h->changed);
}

int hash_thread_start(HashThread *h, Err *err) {
    *h = (HashThread){0};
    sha256_init(&h->hash);
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
    int rc = pthread_create(&h->thread, NULL, run, h);
    if (rc == 0) return 0;
    destroy(h);
    return err_set(err, "cannot start a thread to hash with: %s", strerror(rc));
}

static void wait_locked(HashThread *h) {
    while (h->data) pthread_cond_wait(&h->changed, &h->mutex);
}

void hash_thread_add(HashThread *h, const void *data, size_t n) {
    pthread_mutex_lock(&h->mutex);
    wait_locked(h);
    h->data = data;
    h->n = n;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

void hash_thread_wait(HashThread *h) {
    pthread_mutex_lock(&h->mutex);
    wait_locked(h);
    pthread_mutex_unlock(&h->mutex);
}

void hash_thread_end(HashThread *h, char hex[SHA256_HEX]) {
    pthread_mutex_lock(&h->mutex);
    h->ended = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    pthread_join(h->thread, NULL);
    sha256_hex(&h->hash, hex);
    destroy(h);
}
