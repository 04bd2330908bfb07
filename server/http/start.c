/* An Http from its beginning to its end. */
#include "base/err.h"
#include "base/memory.h"
#include "server/http/connection.h"

#include <stdlib.h>
#include <unistd.h>

static void make_connections(Http *h) {
    h->n_connections = http_affordable_connections(h->options.max_connections);
    size_t places = (size_t)h->n_connections + HTTP_REFUSALS;
    h->connections = xcalloc(places, sizeof *h->connections);
    h->woken = xcalloc(places, sizeof *h->woken);
    h->waking = xcalloc(places, sizeof *h->waking);
    for (size_t i = (size_t)h->n_connections; i < places; i++) h->connections[i].http = h;
}

int http_start(Http **out, const HttpOptions *options, const HttpHandler *handler, Err *err) {
    Http *h = xcalloc(1, sizeof *h);
    h->options = *options;
    h->handler = *handler;
    h->epoll_fd = h->nudge_fd = -1;
    pthread_mutex_init(&h->mutex, NULL);
    h->spare_fd = http_spare_file();
    h->listen_fd = http_listen(options, &h->port, err);
    if (h->listen_fd >= 0) {
        make_connections(h);
        if (http_loop_start(h, err) == 0) {
            *out = h;
            return 0;
        }
    }
    http_free(h);
    return -1;
}

int http_port(const Http *h) { return h->port; }

int http_busy(Http *h) { return atomic_load(&h->n_busy); }

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void http_stop(Http *h) {
    http_loop_stop(h);
    close_fd(&h->listen_fd);
}

void http_free(Http *h) {
    close_fd(&h->listen_fd);
    close_fd(&h->spare_fd);
    close_fd(&h->epoll_fd);
    close_fd(&h->nudge_fd); /* http_wake writes to it up to here */
    pthread_mutex_destroy(&h->mutex);
    free(h->connections);
    free(h->woken);
    free(h->waking);
    free(h);
}
