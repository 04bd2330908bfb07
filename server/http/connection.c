#include "server/http/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static bool is_busy(Phase p) { return p == PHASE_BODY || p == PHASE_REPLY; }

void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds) {
    atomic_fetch_add(&c->http->n_busy, is_busy(phase) - is_busy(c->phase));
    c->phase = phase;
    c->deadline = now_seconds() + seconds;
}

bool http_connection_is_spare(const HttpConnection *c) { return c - c->http->connections < HTTP_SPARE_PLACES; }

void http_connection_open(HttpConnection *c, int fd, const struct sockaddr *client) {
    static const double spare_seconds = 1;
    const HttpOptions *o = &c->http->options;
    c->fd = fd;
    tcp_name(client, c->client);
    c->opened_at = now_seconds();
    c->gone = c->half_closed = c->left = false;
    c->gate = (Gate){.max_body = (size_t)o->max_body};
    c->told = c->passed = 0;
    http_connection_set_phase(c, PHASE_HEAD, http_connection_is_spare(c) ? spare_seconds : o->head_seconds);
}

/* ---- sleeping ---- */

/* Onto the list of those that the loop resumes. Who finds it empty ends the loop's wait; the others are seen with it.
 */
static void list_woken(HttpConnection *c) {
    struct Http *h = c->http;
    HttpConnection *first = atomic_load(&h->woken);
    do c->next_woken = first;
    while (!atomic_compare_exchange_weak(&h->woken, &first, c));
    if (!first) eventfd_write(h->nudge_fd, 1);
}

/* Woken meanwhile it is listed too: resumed here, it would be seen at the loop's next tick, since the library says
 * nothing of it. */
void http_connection_suspend(HttpConnection *c) {
    int awake = HTTP_AWAKE;
    MHD_suspend_connection(c->mhd);
    if (!atomic_compare_exchange_strong(&c->sleep, &awake, HTTP_ASLEEP)) list_woken(c);
}

void http_wake(void *waker) {
    HttpConnection *c = waker;
    if (atomic_exchange(&c->sleep, HTTP_WOKEN) == HTTP_ASLEEP) list_woken(c);
}

/* ---- the end of a request ---- */

void http_connection_drop_body(HttpConnection *c) {
    c->http->n_body_bytes -= c->body.capacity;
    buffer_free(&c->body);
}

/* Idle connections hold no memory but their place and the library's. */
static void drop_held(HttpConnection *c) {
    c->http->n_held -= c->held;
    c->held = 0;
}

/* But for c. What the socket takes at once is nobody's burden. */
static HttpConnection *longest_held(const HttpConnection *c) {
    enum { LEAST = 1 << 16 };
    HttpConnection *all = c->http->connections, *longest = NULL;
    for (HttpConnection *x = all; x < all + atomic_load(&c->http->n_used); x++)
        if (x != c && x->held >= LEAST && (!longest || x->held_since < longest->held_since)) longest = x;
    return longest;
}

void http_connection_hold(HttpConnection *c, size_t n) {
    struct Http *h = c->http;
    HttpConnection *longest;
    c->held = n;
    c->held_since = now_seconds();
    h->n_held += n;
    while (h->n_held > (size_t)h->options.max_bodies && (longest = longest_held(c))) {
        drop_held(longest);
        http_connection_cut(longest);
    }
}

void http_connection_end_request(HttpConnection *c, bool hung_up) {
    const HttpHandler *handler = &c->http->handler;
    uint64_t written = handler->visited ? tcp_written(c->fd) : 0;
    HttpVisit visit = {.client = c->client,
                       .request_id = c->request.request_id,
                       .trace_parent = c->request.trace_parent,
                       .span_id = *c->span_id ? c->span_id : NULL,
                       .method = c->request.method,
                       .path = c->request.path,
                       .status = c->begun ? c->reply.status : 0,
                       .bytes = written - c->told,
                       .seconds = c->asked_at ? now_seconds() - c->asked_at : 0,
                       .stream = c->reply.stream,
                       .hung_up = hung_up,
                       .task = &c->reply.task};
    if (handler->visited) handler->visited(handler->self, &visit);
    c->told = written;
    if (c->reply.task.self) c->reply.task.close(c->reply.task.self);
    buffer_free(&c->reply.body);
    buffer_free(&c->reply.headers);
    http_connection_drop_body(c);
    drop_held(c);
    c->reply = (HttpReply){0};
    c->request = (HttpRequest){0};
    *c->span_id = 0;
    c->asked_at = c->sent = 0;
    c->begun = c->ended = c->in_hand = false;
    c->gate.at = GATE_HEAD;
}

/* ---- refusals ---- */

/* For a request without one. */
static const char *draw_id(HttpConnection *c) {
    uint64_t drawn[2];
    BUG_ON(getrandom(drawn, sizeof drawn, 0) != sizeof drawn);
    snprintf(c->drawn_id, sizeof c->drawn_id, "%016" PRIx64 "%016" PRIx64, drawn[0], drawn[1]);
    return c->drawn_id;
}

/* The trace goes on under this answer's own span; of the flags version 00 knows the last, sampled. */
static void put_trace(HttpConnection *c, Buffer *out) {
    const char *parent = c->request.trace_parent;
    uint64_t drawn = 0;
    while (drawn == 0) BUG_ON(getrandom(&drawn, sizeof drawn, 0) != sizeof drawn);
    snprintf(c->span_id, sizeof c->span_id, "%016" PRIx64, drawn);
    bool sampled = strchr("13579bdf", parent[TRACE_PARENT_LENGTH - 1]) != NULL;
    buffer_print(out, "traceparent: 00-%.*s-%s-0%d\r\n", TRACE_DIGITS, parent + TRACE_AT, c->span_id, sampled);
}

void http_connection_write_fields(HttpConnection *c, Buffer *out) {
    const HttpReply *r = &c->reply;
    if (!c->request.request_id) c->request.request_id = draw_id(c);
    buffer_print(out, "Content-Type: %s\r\n", r->stream ? "text/event-stream" : r->type ? r->type : "application/json");
    if (r->stream) buffer_text(out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    if (r->allow) buffer_print(out, "Allow: %s\r\n", r->allow);
    if (r->policy)
        buffer_print(
            out, "Content-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n",
            r->policy);
    if (r->status == 401) buffer_text(out, "WWW-Authenticate: Bearer\r\n");
    double wait = r->retry_after <= 0 && r->status == 503 ? 1 : r->retry_after;
    if (wait > 0) buffer_print(out, "Retry-After: %.0f\r\nretry-after-ms: %.0f\r\n", ceil(wait), ceil(1000 * wait));
    buffer_print(out, "x-request-id: %s\r\n", c->request.request_id);
    if (c->request.trace_parent) put_trace(c, out);
    buffer_append(out, r->headers.data, r->headers.n);
    if (r->close) buffer_text(out, "Connection: close\r\n");
}

/* `rest` goes out as far as the socket takes it; false when more is left, otherwise nothing follows. */
static bool send_rest(HttpConnection *c) {
    while (c->n_rest > 0 && !c->gone) {
        ssize_t n = send(c->fd, c->rest, c->n_rest, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) c->gone = true;
        if (n > 0) c->rest += n, c->n_rest -= (size_t)n;
    }
    shutdown(c->fd, SHUT_WR);
    return true;
}

void http_refuse_as_filled(HttpConnection *c) {
    struct Http *h = c->http;
    HttpReply *r = &c->reply;
    time_t now = time(NULL);
    char date[64];
    struct tm tm;
    r->close = true;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    buffer_print(&c->out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Length: %zu\r\n", r->status,
                 MHD_get_reason_phrase_for((unsigned)r->status), date, r->body.n);
    http_connection_write_fields(c, &c->out);
    buffer_text(&c->out, "\r\n");
    buffer_append(&c->out, r->body.data, r->body.n);
    bool no_memory = c->out.failed || r->body.failed;
    bool head_only = c->request.method && !strcmp(c->request.method, "HEAD");
    c->rest = no_memory ? h->no_memory : c->out.data;
    c->n_rest = no_memory ? strlen(h->no_memory) : c->out.n;
    if (head_only) c->n_rest -= no_memory ? strlen(h->handler.no_memory) : r->body.n;
    if (no_memory) r->status = 503;
    c->begun = true;
    h->handler.answered(h->handler.self, r->status);
    send_rest(c);
    http_connection_end_request(c, false);
    if (!c->mhd) return http_connection_linger(c);
    http_connection_set_phase(c, PHASE_REFUSED, HTTP_LINGER);
}

void http_refuse(HttpConnection *c, int status, const char *why) {
    c->http->handler.refuse(c->http->handler.self, status, why, &c->reply);
    http_refuse_as_filled(c);
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
    buffer_free(&c->out);
    c->n_rest = 0;
    http_connection_release(c);
}

static int watch(HttpConnection *c, int how) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    if (!send_rest(c)) e.events |= EPOLLOUT;
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
    http_wake(c);
}
