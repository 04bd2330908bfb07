#include "server/http/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool is_busy(Phase p) { return p == PHASE_BODY || p == PHASE_REPLY; }

void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds) {
    atomic_fetch_add(&c->http->n_busy, is_busy(phase) - is_busy(c->phase));
    c->phase = phase;
    c->deadline = now_seconds() + seconds;
    c->seen_at = 0;
}

bool http_connection_is_spare(const HttpConnection *c) { return c - c->http->connections < HTTP_SPARE_PLACES; }

void http_connection_open(HttpConnection *c, int fd) {
    static const double spare_seconds = 1;
    const HttpOptions *o = &c->http->options;
    c->fd = fd;
    c->opened_at = now_seconds();
    c->gone = c->half_closed = c->left = false;
    c->gate = (Gate){.max_body = (size_t)o->max_body};
    c->passed = 0;
    c->told = 0;
    c->asked_at = 0;
    c->mhd = NULL;
    http_connection_set_phase(c, PHASE_HEAD, http_connection_is_spare(c) ? spare_seconds : o->head_seconds);
}

void http_connection_resume(HttpConnection *c) {
    if (!c->suspended) return;
    c->suspended = false;
    MHD_resume_connection(c->mhd);
}

void http_connection_drop_body(HttpConnection *c) {
    c->http->n_body_bytes -= c->body.capacity;
    buffer_free(&c->body);
}

/* Idle connections hold no memory but their place and the library's. */
void http_connection_forget(HttpConnection *c) {
    if (c->reply.task.self) c->reply.task.close(c->reply.task.self);
    buffer_free(&c->reply.body);
    buffer_free(&c->reply.headers);
    http_connection_drop_body(c);
    c->reply = (HttpReply){0};
    c->request = (HttpRequest){0};
    c->request_id = NULL;
    c->sent = 0;
    c->asked_at = 0;
    c->begun = c->ended = c->in_hand = false;
    c->gate.at = GATE_HEAD;
}

/* ---- the end ---- */

bool http_connection_send_rest(HttpConnection *c) {
    while (c->n_rest > 0 && !c->gone) {
        ssize_t n = send(c->fd, c->rest, c->n_rest, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) c->gone = true;
        if (n > 0) c->rest += n, c->n_rest -= (size_t)n;
    }
    shutdown(c->fd, SHUT_WR);
    return true;
}

void http_connection_release(HttpConnection *c) {
    http_connection_set_phase(c, PHASE_FREE, INFINITY);
    if (http_connection_is_spare(c)) return;
    c->next_free = c->http->first_free;
    c->http->first_free = c;
}

static void close_socket(HttpConnection *c) {
    if (c->fd >= 0) close(c->fd);
    buffer_free(&c->out);
    c->n_rest = 0;
    http_connection_release(c);
}

static int watch(HttpConnection *c, int how) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    if (!http_connection_send_rest(c)) e.events |= EPOLLOUT;
    return epoll_ctl(c->http->epoll_fd, how, c->fd, &e);
}

void http_connection_linger(HttpConnection *c) {
    c->dropped = 0;
    http_connection_set_phase(c, PHASE_LINGER, HTTP_LINGER);
    if (c->gone || watch(c, EPOLL_CTL_ADD)) close_socket(c);
}

/* What still comes is dropped: a body of the greatest length to its end, so that its client reads the answer. */
void http_connection_linger_on(HttpConnection *c, uint32_t events) {
    enum { PATIENCE = 16 };
    char block[16384];
    if (events & EPOLLOUT) watch(c, EPOLL_CTL_MOD);
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
