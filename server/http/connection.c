#include "server/http/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool is_busy(Phase p) { return p == PHASE_BODY || p == PHASE_READY || p == PHASE_REPLY; }

void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds) {
    atomic_fetch_add(&c->http->n_busy, is_busy(phase) - is_busy(c->phase));
    c->phase = phase;
    c->deadline = now_seconds() + seconds;
}

bool http_connection_is_spare(const HttpConnection *c) { return c - c->http->connections < HTTP_SPARE_PLACES; }

void http_connection_open(HttpConnection *c, int fd) {
    static const double spare_seconds = 1;
    const HttpOptions *o = &c->http->options;
    c->fd = fd;
    c->opened_at = now_seconds();
    c->gone = c->half_closed = c->left = false;
    c->gate.max_body = (size_t)o->max_body;
    c->told = c->passed = 0;
    http_connection_set_phase(c, PHASE_HEAD, http_connection_is_spare(c) ? spare_seconds : o->head_seconds);
}

bool http_connection_suspend(HttpConnection *c) {
    pthread_mutex_lock(&c->http->mutex);
    bool news = atomic_load(&c->news);
    if (!news) MHD_suspend_connection(c->mhd);
    atomic_store(&c->suspended, !news);
    pthread_mutex_unlock(&c->http->mutex);
    return !news;
}

void http_connection_resume(HttpConnection *c) {
    pthread_mutex_lock(&c->http->mutex);
    atomic_store(&c->news, true);
    if (atomic_exchange(&c->suspended, false)) MHD_resume_connection(c->mhd);
    pthread_mutex_unlock(&c->http->mutex);
}

/* ---- the end of a request ---- */

static void tell(HttpConnection *c, bool hung_up) {
    const HttpHandler *handler = &c->http->handler;
    uint64_t written = handler->visited ? tcp_written(c->fd) : 0;
    if (handler->visited)
        handler->visited(handler->self, &(HttpVisit){.client = c->client,
                                                     .request_id = c->request_id,
                                                     .method = c->request.method,
                                                     .path = c->request.path,
                                                     .status = c->begun ? c->reply.status : 0,
                                                     .bytes = written - c->told,
                                                     .seconds = c->asked_at ? now_seconds() - c->asked_at : 0,
                                                     .stream = c->reply.stream,
                                                     .hung_up = hung_up,
                                                     .task = &c->reply.task});
    c->told = written;
}

void http_connection_drop_body(HttpConnection *c) {
    c->http->n_body_bytes -= c->gate.body.capacity;
    buffer_free(&c->gate.body);
}

/* Idle connections hold no memory but their place and the library's. */
void http_connection_end_request(HttpConnection *c, bool hung_up) {
    if (c->in_hand) tell(c, hung_up);
    if (c->reply.task.self) c->reply.task.close(c->reply.task.self);
    buffer_free(&c->reply.body);
    buffer_free(&c->reply.headers);
    http_connection_drop_body(c);
    gate_reset(&c->gate);
    c->reply = (HttpReply){0};
    c->request = (HttpRequest){0};
    c->request_id = NULL;
    c->sent = 0;
    c->asked_at = 0;
    c->begun = c->ended = c->in_hand = false;
}

/* ---- the end of a connection ---- */

void http_connection_release(HttpConnection *c) {
    http_connection_set_phase(c, PHASE_FREE, INFINITY);
    if (http_connection_is_spare(c)) return;
    c->next_free = c->http->first_free;
    c->http->first_free = c;
}

static void close_socket(HttpConnection *c) {
    if (c->fd >= 0) close(c->fd);
    http_connection_release(c);
}

void http_connection_linger(HttpConnection *c) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    c->dropped = 0;
    http_connection_set_phase(c, PHASE_LINGER, HTTP_LINGER);
    shutdown(c->fd, SHUT_WR);
    if (epoll_ctl(c->http->epoll_fd, EPOLL_CTL_ADD, c->fd, &e)) close_socket(c);
}

/* What still comes is dropped: a body of the greatest length to its end, so that its client reads the answer. */
void http_connection_linger_on(HttpConnection *c) {
    enum { PATIENCE = 16 };
    char block[16384];
    ssize_t n = recvfrom(c->fd, block, sizeof block, MSG_DONTWAIT, NULL, NULL);
    c->dropped += n > 0 ? (size_t)n : 0;
    bool over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (over || c->dropped > PATIENCE * (size_t)c->http->options.max_body) close_socket(c);
}

void http_connection_cut(HttpConnection *c) {
    if (c->phase == PHASE_FREE) return;
    if (c->phase == PHASE_LINGER) return close_socket(c);
    c->gone = true;
    shutdown(c->fd, SHUT_RDWR); /* the library sees it, if it looks at the socket */
    http_connection_resume(c);
}
