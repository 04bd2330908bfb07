#include "server/http/recv.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
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

/* ---- requests ---- */

/* The library has its line and sleeps until the body is whole, or nobody waits for it any more. */
static void await_body(HttpConnection *c, bool on) {
    struct epoll_event e = {.events = EPOLLRDHUP | (on ? EPOLLIN : EPOLLET), .data.ptr = c};
    epoll_ctl(c->http->epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void end_body(HttpConnection *c) {
    http_connection_set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    await_body(c, false);
    http_connection_resume(c);
}

/* With what c->reply holds. */
static void refuse_as_filled(HttpConnection *c) {
    c->in_hand = true;
    c->reply.close = true;
    http_connection_drop_body(c);
    if (c->phase == PHASE_REPLY) return; /* the library is about to ask for it */
    if (c->phase == PHASE_BODY) return end_body(c);
    http_connection_set_phase(c, PHASE_READY, HTTP_LINGER);
    http_recv_ring(c);
}

void http_refuse(HttpConnection *c, int status, const char *why) {
    c->reply.status = status;
    c->reply.body.failed = !why;
    if (why) c->http->handler.refuse(c->http->handler.self, status, why, &c->reply);
    refuse_as_filled(c);
}

static void see_head(HttpConnection *c, bool alone) {
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const HttpHandler *handler = &c->http->handler;
    const HttpOptions *o = &c->http->options;
    const Head *head = &c->gate.head;
    c->in_hand = true;
    c->asked_at = now_seconds();
    c->request_id = head->fields[HEAD_REQUEST_ID];
    c->request = (HttpRequest){
        .method = head->method,
        .path = head->target,
        .authorization = head->fields[HEAD_AUTHORIZATION],
        .api_key = head->fields[HEAD_API_KEY],
        .fetch_site = head->fields[HEAD_FETCH_SITE],
        .host = head->fields[HEAD_HOST],
        .origin = head->fields[HEAD_ORIGIN],
        .wanted_method = head->fields[HEAD_WANTED_METHOD],
        .wanted_headers = head->fields[HEAD_WANTED_HEADERS],
        .client = c->client,
        .crowded = http_connection_is_spare(c),
        .waker = c,
    };
    if (c->gate.status) return;
    c->reply.close = c->request.crowded;
    bool whole = c->gate.at == GATE_WHOLE;
    http_connection_set_phase(c, whole ? PHASE_REPLY : PHASE_BODY, whole ? o->ping_seconds : o->body_seconds);
    if (!handler->admit(handler->self, &c->request, &c->reply) && !whole)
        refuse_as_filled(c); /* or its body would be the next request */
    else if (alone && head->expects)
        send(c->fd, go_on, sizeof go_on - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Who holds back the largest body pays for the room that there is for all. */
static HttpConnection *largest_body(struct Http *h) {
    HttpConnection *most = h->connections;
    for (int i = 1; i < atomic_load(&h->n_used); i++)
        if (h->connections[i].gate.body.capacity > most->gate.body.capacity) most = &h->connections[i];
    return most;
}

static size_t read_body(HttpConnection *c, const char *in, size_t n) {
    struct Http *h = c->http;
    size_t before = c->gate.body.capacity, used = gate_read_body(&c->gate, in, n);
    h->n_body_bytes += c->gate.body.capacity - before;
    h->most_body_bytes = MAX(h->most_body_bytes, h->n_body_bytes);
    while (h->n_body_bytes > (size_t)h->options.max_bodies)
        http_refuse(largest_body(h), 503, "the bodies that are being received take all the memory there is for them");
    return used;
}

/* Reads in[0..n); the bytes that are done with. */
static size_t judge(HttpConnection *c, const char *in, size_t n) {
    Gate *gate = &c->gate;
    size_t used = 0;
    if (c->phase != PHASE_BODY) {
        used = gate_read_head(gate, in, n);
        if (c->phase == PHASE_IDLE && used < n) http_connection_set_phase(c, PHASE_HEAD, c->http->options.head_seconds);
        if (gate->at != GATE_HEAD || gate->status) see_head(c, used == n);
    }
    if (c->phase == PHASE_BODY) used += read_body(c, in + used, n - used);
    if (gate->status) http_refuse(c, gate->status, gate->why);
    if (c->phase == PHASE_BODY && gate->at == GATE_WHOLE) end_body(c);
    return used;
}

/* What has come; 1: some bytes are done with, 0: none, -1: the peer has gone. */
static int look(HttpConnection *c) {
    char in[HTTP_MAX_HEAD];
    ssize_t n = recvfrom(c->fd, in, sizeof in, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    size_t used = judge(c, in, (size_t)n);
    c->served_in = c->http->turn_began;
    c->left = (size_t)n == sizeof in || used < (size_t)n;
    if (used > 0 && recvfrom(c->fd, in, used, MSG_DONTWAIT, NULL, NULL) != (ssize_t)used) return -1;
    return used > 0;
}

void http_recv_body(HttpConnection *c) {
    if (look(c) < 0) http_connection_cut(c);
}

/* ---- for the library ---- */

static ssize_t later(void) {
    errno = EAGAIN;
    return -1;
}

static ssize_t hand_over(HttpConnection *c, char *out, size_t max) {
    const Head *head = &c->gate.head;
    int n = snprintf(out, max, "%s / HTTP/1.%d\r\nHost: x\r\nConnection: %s\r\n\r\n",
                     c->gate.head_only ? "HEAD" : "GET", head->http11, head->keep_alive ? "keep-alive" : "close");
    c->passed = (size_t)n;
    if (c->phase == PHASE_BODY) await_body(c, true);
    if (c->phase == PHASE_READY) http_connection_set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    return MIN(n, (ssize_t)max);
}

/* Who has been served in this turn of the loop waits for the next one when it has lasted a while. */
static bool has_had_its_turn(const HttpConnection *c) {
    static const double longest = 2e-3; /* seconds */
    return c->served_in == c->http->turn_began && now_seconds() - c->served_in > longest;
}

/* As recv: 0 when the peer has gone. */
static ssize_t take(HttpConnection *c, char *out, size_t max) {
    if (c->gone) return 0;
    if (c->phase == PHASE_READY) return hand_over(c, out, max);
    if (c->phase == PHASE_BODY || c->phase == PHASE_REPLY) return later();
    if (has_had_its_turn(c)) return http_recv_ring(c), later();
    int read = look(c);
    bool wanting = c->phase == PHASE_IDLE || c->phase == PHASE_HEAD;
    if (read < 0 || (read == 0 && wanting && c->half_closed)) return c->gone = true, 0; /* the rest will never come */
    if (!wanting) return hand_over(c, out, max);
    if (c->half_closed || (c->left && read > 0)) http_recv_ring(c);
    return later();
}

/* libmicrohttpd's; all others pass straight through. */
ssize_t recv(int fd, void *buffer, size_t n, int flags) {
    HttpConnection *c = fd >= 0 && fd < HTTP_MAX_FILES ? atomic_load(&connections[fd]) : NULL;
    return c ? take(c, buffer, n) : recvfrom(fd, buffer, n, flags, NULL, NULL);
}
