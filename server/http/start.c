/* An Http from its beginning to its end. */
#include "base/err.h"
#include "base/memory.h"
#include "server/http/connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_connections(Http *h) {
    h->n_connections = http_affordable_connections(h->options.max_connections);
    size_t places = (size_t)h->n_connections + HTTP_REFUSALS;
    h->connections = xcalloc(places, sizeof *h->connections);
    h->woken = xcalloc(places, sizeof *h->woken);
    h->waking = xcalloc(places, sizeof *h->waking);
    for (size_t i = (size_t)h->n_connections; i < places; i++) h->connections[i].http = h;
}

/* What is said when memory has run out must be there before. */
static void make_no_memory(Http *h) {
    const char *body = h->handler.no_memory, *event = h->handler.no_memory_event;
    buffer_print(&h->no_memory,
                 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "Retry-After: 1\r\nretry-after-ms: 1000\r\nConnection: close\r\n\r\n",
                 strlen(body));
    h->no_memory_head = h->no_memory.n;
    buffer_text(&h->no_memory, body);
    buffer_print(&h->no_memory_chunk, "%zx\r\n%s\r\n0\r\n\r\n", strlen(event), event);
    if (h->no_memory.failed || h->no_memory_chunk.failed) memory_exhausted(h->no_memory.n);
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
        make_no_memory(h);
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
    buffer_free(&h->no_memory);
    buffer_free(&h->no_memory_chunk);
    free(h->connections);
    free(h->woken);
    free(h->waking);
    free(h);
}
