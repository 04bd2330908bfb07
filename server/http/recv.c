#include "server/http/recv.h"

#include "base/clock.h"
#include "server/http/reply.h"

#include <errno.h>
#include <sys/epoll.h>

/* By descriptor. Other threads look here too, for sockets of their own. */
static _Atomic(HttpConnection *) connections[HTTP_MAX_FILES];

void http_recv_keep(int fd, HttpConnection *c) { atomic_store(&connections[fd], c); }

/* epoll tells the library once when bytes have come; of those that stay in the socket it must be told again. A socket
 * that is not in its set is one that it is going to read, or to add, which tells it too. */
void http_recv_ring(HttpConnection *c) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLET, .data.ptr = c->mhd};
    int library = MHD_get_daemon_info(c->http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    epoll_ctl(library, EPOLL_CTL_MOD, c->fd, &e);
}

static ssize_t later(void) {
    errno = EAGAIN;
    return -1;
}

/* For the library: the peer has gone. */
static ssize_t end(HttpConnection *c) {
    c->gone = true;
    return 0;
}

/* Who has been served in this turn of the loop waits for the next one when it has lasted a while. */
static bool has_had_its_turn(const HttpConnection *c) {
    static const double longest = 2e-3; /* seconds */
    return c->served_in == c->http->turn_began && now_seconds() - c->served_in > longest;
}

static ssize_t refuse(HttpConnection *c, const Passed *p) {
    if (!c->in_hand) {
        c->request = (HttpRequest){.method = p->head.method, .path = p->head.target};
        c->request_id = p->head.fields[HEAD_REQUEST_ID];
    }
    http_refuse(c, p->status, p->why);
    return 0;
}

static ssize_t pass(HttpConnection *c, char *out, size_t max) {
    char in[HTTP_MAX_HEAD];
    const HttpOptions *o = &c->http->options;
    if (c->gone || c->phase == PHASE_REFUSED) return 0;
    if (c->gate.at == GATE_WHOLE) return later();
    if (has_had_its_turn(c)) return http_recv_ring(c), later();
    ssize_t n = recvfrom(c->fd, in, sizeof in, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return later();
    if (n <= 0) return end(c);
    Passed p = gate_pass(&c->gate, in, (size_t)n, out, max);
    if (p.n_head > 0) {
        c->asked_at = now_seconds();
        c->passed = p.n_head;
        http_connection_set_phase(c, PHASE_BODY, o->body_seconds);
    } else if (c->phase == PHASE_IDLE && p.used < (size_t)n) {
        http_connection_set_phase(c, PHASE_HEAD, o->head_seconds);
    }
    if (p.status) return refuse(c, &p);
    c->left = (size_t)n == sizeof in || p.used < (size_t)n;
    if (p.used > 0 && recvfrom(c->fd, in, p.used, MSG_DONTWAIT, NULL, NULL) != (ssize_t)p.used) return end(c);
    if (p.made == 0 && p.used == 0 && c->half_closed) return end(c); /* the rest will never come */
    if (c->gate.at != GATE_WHOLE && (c->half_closed || (c->left && p.used > 0))) http_recv_ring(c);
    c->served_in = c->http->turn_began;
    return p.made ? (ssize_t)p.made : later();
}

/* libmicrohttpd's; all others pass straight through. */
ssize_t recv(int fd, void *buffer, size_t n, int flags) {
    HttpConnection *c = fd >= 0 && fd < HTTP_MAX_FILES ? atomic_load(&connections[fd]) : NULL;
    return c ? pass(c, buffer, n) : recvfrom(fd, buffer, n, flags, NULL, NULL);
}
