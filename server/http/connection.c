#include "server/http/connection.h"

#include "base/clock.h"
#include "base/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_busy(Phase p) { return p == PHASE_BODY || p == PHASE_REPLY; }

static void set_phase(HttpConnection *c, Phase phase, double seconds) {
    atomic_fetch_add(&c->http->n_busy, is_busy(phase) - is_busy(c->phase));
    c->phase = phase;
    c->deadline = now_seconds() + seconds;
    c->acked_at = 0;
}

static void tell(const HttpConnection *c, bool hung_up) {
    const HttpHandler *handler = &c->http->handler;
    if (!handler->visited || (!c->begun && !c->head.method)) return;
    handler->visited(handler->self, &(HttpVisit){.client = c->client,
                                                 .request_id = c->head.request_id,
                                                 .method = c->head.method,
                                                 .path = c->head.path,
                                                 .status = c->begun ? c->reply.status : 0,
                                                 .bytes = c->bytes,
                                                 .seconds = c->asked_at ? now_seconds() - c->asked_at : 0,
                                                 .stream = c->reply.stream,
                                                 .hung_up = hung_up,
                                                 .task = &c->reply.task});
}

/* Idle connections hold no memory but their place. */
static void forget_request(HttpConnection *c, bool hung_up) {
    tell(c, hung_up);
    if (c->reply.task.self) c->reply.task.close(c->reply.task.self);
    buffer_free(&c->reply.body);
    buffer_free(&c->reply.headers);
    buffer_free(&c->body);
    buffer_free(&c->out);
    free(c->head_text);
    c->head_text = NULL;
    c->head = (Head){0};
    c->reply = (HttpReply){0};
    c->sent = 0;
    c->n_tail = 0;
    c->bytes = 0;
    c->asked_at = 0;
    c->begun = c->ended = false;
}

/* The peer's address, "" when it has none. */
static void client_name(int fd, char out[INET6_ADDRSTRLEN]) {
    struct sockaddr_storage peer;
    socklen_t n = sizeof peer;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&peer;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&peer;
    *out = 0;
    if (getpeername(fd, (struct sockaddr *)&peer, &n)) return;
    if (peer.ss_family == AF_INET) inet_ntop(AF_INET, &v4->sin_addr, out, INET6_ADDRSTRLEN);
    if (peer.ss_family == AF_INET6) inet_ntop(AF_INET6, &v6->sin6_addr, out, INET6_ADDRSTRLEN);
}

void http_connection_open(HttpConnection *c, int fd) {
    struct Http *h = c->http;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    client_name(fd, c->client);
    c->events = e.events;
    c->gone = false;
    c->seen = c->dropped = 0;
    set_phase(c, PHASE_HEAD, h->options.head_seconds);
    if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e)) http_connection_close(c); /* no memory in the kernel */
}

void http_connection_close(HttpConnection *c) {
    if (c->phase == PHASE_FREE) return;
    struct Http *h = c->http;
    close(c->fd);
    forget_request(c, true);
    buffer_free(&c->in);
    set_phase(c, PHASE_FREE, 0);
    if (c - h->connections >= h->n_connections) return;
    c->next_free = h->first_free;
    h->first_free = c;
}

/* ---- answering ---- */

/* False when there is more than the socket takes now, or the peer has gone. */
static bool flush(HttpConnection *c) {
    while (c->sent < c->out.n) {
        ssize_t n = send(c->fd, c->out.data + c->sent, c->out.n - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) http_connection_close(c);
        if (n < 0) return false;
        c->sent += (size_t)n;
        c->bytes += (uint64_t)n;
    }
    while (c->n_tail > 0) {
        ssize_t n = send(c->fd, c->tail, c->n_tail, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) http_connection_close(c);
        if (n < 0) return false;
        c->tail += n;
        c->n_tail -= (size_t)n;
        c->bytes += (uint64_t)n;
    }
    if (c->out.n > 0 && c->phase == PHASE_REPLY) c->deadline = now_seconds() + c->http->options.ping_seconds;
    c->out.n = c->sent = 0;
    return true;
}

/* Memory has run out: a 503 instead of whatever was to be said, or the end of the stream that has begun. Takes none. */
static bool end_without_memory(HttpConnection *c) {
    struct Http *h = c->http;
    c->ended = true;
    c->keep = false;
    if (c->begun) {
        bool chunked = c->head.http11;
        c->tail = chunked ? h->no_memory_chunk.data : h->handler.no_memory_event;
        c->n_tail = chunked ? h->no_memory_chunk.n : strlen(c->tail);
        return true;
    }
    bool head_only = c->head.method && !strcmp(c->head.method, "HEAD");
    buffer_free(&c->out);
    c->sent = 0;
    c->tail = h->no_memory.data;
    c->n_tail = head_only ? h->no_memory_head : h->no_memory.n;
    c->begun = true;
    h->handler.answered(h->handler.self, 503);
    if (c->phase != PHASE_REPLY) set_phase(c, PHASE_REPLY, h->options.ping_seconds);
    return true;
}

/* The reply is filled, or is a stream and begins. */
static bool begin_answer(HttpConnection *c) {
    HttpReply *r = &c->reply;
    bool chunked = r->stream && c->head.http11;
    if (r->stream) r->status = 200;
    if (r->close || (r->stream && !chunked)) c->keep = false;
    if (!c->head.request_id) c->head.request_id = http_draw_id(c->drawn_id);
    http_reply_head(&c->out, r, &c->head, c->keep);
    if (!r->stream && !(c->head.method && !strcmp(c->head.method, "HEAD")))
        buffer_append(&c->out, r->body.data, r->body.n);
    if (c->out.failed || r->body.failed) return end_without_memory(c);
    if (!r->stream) buffer_free(&r->body);
    c->begun = true;
    c->ended = !r->stream;
    c->http->handler.answered(c->http->handler.self, r->status);
    if (c->phase != PHASE_REPLY) set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    return true;
}

static bool refuse(HttpConnection *c, int status, const char *why) {
    c->http->handler.refuse(c->http->handler.self, status, why, &c->reply);
    c->keep = false; /* nobody knows where the next request would begin */
    return begin_answer(c);
}

void http_connection_turn_away(HttpConnection *c) {
    if (c->phase == PHASE_FREE) return;
    refuse(c, 503, "too many connections");
    http_connection_run(c);
}

/* What the task has appended goes out, as a chunk where the client knows chunks. */
static void send_more(HttpConnection *c) {
    Buffer *body = &c->reply.body;
    size_t whole = c->out.n;
    if (c->head.http11)
        http_reply_chunk(&c->out, body);
    else
        buffer_append(&c->out, body->data, body->n);
    body->n = 0;
    if (c->ended && !body->failed && c->head.http11) buffer_text(&c->out, "0\r\n\r\n");
    if (c->out.failed) c->out.n = whole; /* part of a chunk is none */
    if (c->out.failed || body->failed) end_without_memory(c);
}

/* Another request may follow, or the socket closes once the peer has read everything. */
static void end_answer(HttpConnection *c) {
    enum { LINGER = 2 }; /* seconds */
    forget_request(c, false);
    c->gone = false; /* epoll says it again */
    if (c->keep) {
        set_phase(c, PHASE_IDLE, c->http->options.idle_seconds);
        return;
    }
    shutdown(c->fd, SHUT_WR);
    buffer_free(&c->in);
    set_phase(c, PHASE_LINGER, LINGER);
}

static bool write_reply(HttpConnection *c) {
    HttpTask *task = &c->reply.task;
    for (;;) {
        if (!flush(c)) return false;
        if (c->ended) return end_answer(c), true;
        bool done = task->poll(task->self, &c->reply);
        if (c->begun) {
            c->ended = done;
            send_more(c);
            if (!c->ended && c->out.n == 0) return false; /* until it is woken */
        } else {
            if (!done) return false;
            begin_answer(c);
        }
    }
}

/* ---- receiving ---- */

static void drop(Buffer *b, size_t n) {
    b->n -= n;
    memmove(b->data, b->data + n, b->n);
    if (b->n == 0) buffer_free(b);
}

static HttpRequest request_of(HttpConnection *c) {
    return (HttpRequest){
        .method = c->head.method,
        .path = c->head.path,
        .authorization = c->head.authorization,
        .api_key = c->head.api_key,
        .fetch_site = c->head.fetch_site,
        .host = c->head.host,
        .origin = c->head.origin,
        .wanted_method = c->head.wanted_method,
        .wanted_headers = c->head.wanted_headers,
        .body = c->body.data,
        .n_body = c->body.n,
        .waker = c,
    };
}

static bool begin_request(HttpConnection *c, size_t n) {
    const HttpHandler *handler = &c->http->handler;
    size_t max = (size_t)c->http->options.max_body;
    const char *why;
    c->head_text = try_malloc(n + 1);
    if (!c->head_text) return end_without_memory(c);
    memcpy(c->head_text, c->in.data, n);
    c->head_text[n] = 0;
    c->seen = 0;
    c->asked_at = now_seconds();
    drop(&c->in, n);
    int status = head_parse(&c->head, c->head_text, n, max, &why);
    if (status) return refuse(c, status, why);
    bool has_body = c->head.chunked || c->head.length > 0;
    HttpRequest request = request_of(c);
    c->keep = c->head.keep_alive;
    if (!handler->admit(handler->self, &request, &c->reply)) {
        if (has_body) c->keep = false; /* else the body would be read as the next request */
        return begin_answer(c);
    }
    c->reader = body_begin(c->head.chunked, c->head.length, max);
    set_phase(c, PHASE_BODY, c->http->options.body_seconds);
    if (!c->head.expects || !has_body || c->in.n > 0) return true;
    buffer_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    return flush(c); /* an empty socket takes it whole */
}

static bool read_head(HttpConnection *c) {
    Buffer *in = &c->in;
    if (in->failed) return end_without_memory(c);
    while (c->seen == 0 && in->n >= 2 && !memcmp(in->data, "\r\n", 2)) drop(in, 2); /* RFC 9112, 2.2 */
    if (in->n == 0) return false;
    if (c->phase == PHASE_IDLE) set_phase(c, PHASE_HEAD, c->http->options.head_seconds);
    ssize_t n = head_end(in->data, MIN(in->n, HTTP_MAX_HEAD), &c->seen);
    if (n > 0) return begin_request(c, (size_t)n);
    if (n < 0) return refuse(c, 400, "a control character, a bare CR or a bare LF in the head");
    if (in->n < HTTP_MAX_HEAD) return false;
    if (memchr(in->data, '\n', HTTP_MAX_HEAD)) return refuse(c, 431, "headers too long");
    return refuse(c, 414, "the request target is too long");
}

static bool read_body(HttpConnection *c) {
    const HttpHandler *handler = &c->http->handler;
    size_t used;
    if (c->in.failed) return end_without_memory(c);
    int rc = body_read(&c->reader, c->in.data, c->in.n, &used, &c->body);
    if (used > 0) drop(&c->in, used);
    if (c->body.failed) return end_without_memory(c);
    if (rc == 0) return false;
    if (rc < 0)
        return refuse(c, -rc,
                      rc == -413   ? "the body is too long"
                      : rc == -431 ? "a chunk's extension or the trailers are too long"
                                   : "malformed chunk");
    HttpRequest request = request_of(c);
    handler->handle(handler->self, &request, &c->reply);
    buffer_free(&c->body);
    if (!c->reply.task.self || c->reply.stream) return begin_answer(c);
    set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    return true;
}

/* ---- the machine ---- */

/* False when there is nothing to do but wait. */
static bool step(HttpConnection *c) {
    switch (c->phase) {
    case PHASE_IDLE:
    case PHASE_HEAD:
        return read_head(c);
    case PHASE_BODY:
        return read_body(c);
    case PHASE_REPLY:
        return write_reply(c);
    default:
        return false;
    }
}

void http_connection_run(HttpConnection *c) {
    while (step(c)) {}
    if (c->phase == PHASE_FREE) return;
    uint32_t events = c->gone ? 0 : EPOLLRDHUP;
    events |= c->phase != PHASE_REPLY ? EPOLLIN : c->sent < c->out.n || c->n_tail > 0 ? EPOLLOUT : 0;
    if (events == c->events) return;
    struct epoll_event e = {.events = events, .data.ptr = c};
    c->events = events;
    epoll_ctl(c->http->epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

/* False when the connection is over. */
static bool receive(HttpConnection *c) {
    enum {
        PATIENCE = 16
    }; /* bodies of the greatest length are read to their end, so that the client reads its answer */
    char block[HTTP_MAX_HEAD];
    ssize_t n = recv(c->fd, block, sizeof block - c->in.n, 0); /* a head that fills it has been refused */
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    if (c->phase == PHASE_LINGER) {
        c->dropped += (size_t)n;
        return c->dropped <= PATIENCE * (size_t)c->http->options.max_body;
    }
    buffer_append(&c->in, block, (size_t)n);
    return true;
}

void http_connection_ready(HttpConnection *c, uint32_t events) {
    bool over = events & (EPOLLHUP | EPOLLERR);
    if (c->phase == PHASE_REPLY) {
        c->gone = c->gone || events & EPOLLRDHUP;
        over = over || (c->gone && c->reply.task.self);
    } else {
        over = over || !receive(c);
    }
    if (over)
        http_connection_close(c);
    else
        http_connection_run(c);
}

/* True when bytes have been on their way for `limit` seconds without the peer confirming a single one. */
static bool is_stalled(HttpConnection *c, double now, double limit) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n)) return false;
    bool pending = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
    if (!pending || info.tcpi_bytes_acked != c->acked || c->acked_at == 0) {
        c->acked = info.tcpi_bytes_acked;
        c->acked_at = now;
    }
    return now - c->acked_at > limit;
}

void http_connection_look(HttpConnection *c, double now) {
    if (c->phase == PHASE_FREE) return;
    if (c->phase != PHASE_REPLY) {
        if (now > c->deadline) http_connection_close(c);
    } else if (is_stalled(c, now, c->http->options.stall_seconds)) {
        http_connection_close(c);
    } else if (c->begun && c->reply.stream && c->sent == c->out.n && now > c->deadline) {
        buffer_text(&c->reply.body, ": ping\n\n");
        send_more(c);
        http_connection_run(c);
    }
}
