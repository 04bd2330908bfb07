/* An Http from its beginning to its end. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/http/library.h"
#include "server/http/listen.h"
#include "server/http/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void make_connections(Http *h) {
    h->n_connections = http_affordable_connections(h->options.max_connections);
    h->connections = xcalloc((size_t)(HTTP_SPARE_PLACES + h->n_connections), sizeof *h->connections);
    for (int i = 0; i < HTTP_SPARE_PLACES; i++) h->connections[i].http = h;
    atomic_store(&h->n_used, HTTP_SPARE_PLACES);
}

/* What is said when memory has run out must be there before. */
static void make_no_memory(Http *h) {
    buffer_print(&h->no_memory,
                 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "Retry-After: 1\r\nretry-after-ms: 1000\r\nConnection: close\r\n\r\n%s",
                 strlen(h->handler.no_memory), h->handler.no_memory);
    if (h->no_memory.failed) memory_exhausted(h->no_memory.n);
}

/* ---- does the library read through the gate? ---- */

static bool probe_admit(void *self, const HttpRequest *request, HttpReply *reply) {
    (void)self, (void)request;
    reply->status = 200;
    return false;
}
static void probe_answered(void *self, int status) { (void)self, (void)status; }

/* A request over a pair of sockets, before any other. One that the gate has not passed is not served. */
static int probe(Http *h, Err *err) {
    enum { ROUNDS = 100 };
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", wanted[] = "HTTP/1.1 200 ";
    char answer[sizeof wanted] = "";
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        return err_set(err, "socketpair: %s", strerror(errno));
    HttpHandler handler = h->handler;
    h->handler = (HttpHandler){.admit = probe_admit, .answered = probe_answered};
    bool sent = send(pair[1], request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1;
    http_welcome(h, pair[0], &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t));
    ssize_t n = -1;
    for (int i = 0; i < ROUNDS && n < 0; i++) {
        h->turn_began = now_seconds();
        MHD_run(h->daemon);
        n = recvfrom(pair[1], answer, sizeof answer - 1, MSG_DONTWAIT, NULL, NULL);
    }
    close(pair[1]);
    http_connection_cut(&h->connections[HTTP_SPARE_PLACES]); /* it lingers no longer */
    h->handler = handler;
    if (sent && n > 0 && !strcmp(answer, wanted)) return 0;
    return err_set(err,
                   "libmicrohttpd %s does not read its sockets by the program's recv(), so requests could not be "
                   "judged before it has them",
                   MHD_get_version());
}

static int start(Http *h, Err *err) {
    h->listen_fd = http_listen(&h->options, &h->port, err);
    if (h->listen_fd < 0) return -1;
    make_connections(h);
    make_no_memory(h);
    h->daemon = http_library_start(h);
    if (!h->daemon) return err_set(err, "libmicrohttpd %s does not start: %s", MHD_get_version(), strerror(errno));
    if (h->epoll_fd < 0 || h->nudge_fd < 0) return err_set(err, "epoll: %s", strerror(errno));
    return probe(h, err) || http_loop_start(h, err) ? -1 : 0;
}

int http_start(Http **out, const HttpOptions *options, const HttpHandler *handler, Err *err) {
    Http *h = xcalloc(1, sizeof *h);
    h->options = *options;
    h->handler = *handler;
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->spare_fd = http_spare_file();
    if (start(h, err) == 0) {
        *out = h;
        return 0;
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
    MHD_stop_daemon(h->daemon);
    h->daemon = NULL;
    close_fd(&h->listen_fd);
}

void http_free(Http *h) {
    if (h->daemon) MHD_stop_daemon(h->daemon);
    close_fd(&h->listen_fd);
    close_fd(&h->spare_fd);
    close_fd(&h->epoll_fd);
    close_fd(&h->nudge_fd); /* http_wake writes to it up to here */
    buffer_free(&h->no_memory);
    free(h->connections);
    free(h);
}
