/* The gate: what libmicrohttpd reads. It reads its sockets with recv and nothing else, and a shared library binds to a
 * recv that the program has. Ours looks at what has come without taking it, judges it (head.c, body.c), and gives the
 * library the same request written anew: the lines that are read here, trimmed, without query, cookies, chunk
 * extensions and trailers. For of what is legal, libmicrohttpd 0.9.75 takes "Content-Length: 5 " for malformed,
 * "Transfer-Encoding: chunked " for a body without end, and answers by itself, in HTML, when arguments, cookies or
 * trailers have filled its pool. */
#include "base/clock.h"
#include "server/http/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* By descriptor. Other threads look here too, for sockets of their own. */
static _Atomic(HttpConnection *) connections[HTTP_MAX_FILES];

void http_gate_keep(int fd, HttpConnection *c) { atomic_store(&connections[fd], c); }

/* epoll tells the library once when bytes have come; of those that stay in the socket it must be told again. A socket
 * that is not in its set is one that it is going to read, or to add, which tells it too. */
void http_gate_ring(HttpConnection *c) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLET, .data.ptr = c->mhd};
    int library = MHD_get_daemon_info(c->http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    epoll_ctl(library, EPOLL_CTL_MOD, c->fd, &e);
}

/* One head at in[0..n), of which *used bytes are taken; the bytes made of it, 0 while it is not there or refused. */
static size_t pass_head(HttpConnection *c, char *in, size_t n, size_t *used, char *out, size_t max) {
    size_t max_body = (size_t)c->http->options.max_body, made;
    const char *why = NULL;
    Head head;
    while (c->n_looked_at == 0 && n - *used >= 2 && !memcmp(in + *used, "\r\n", 2)) *used += 2; /* RFC 9112, 2.2 */
    in += *used;
    n -= *used;
    if (n == 0) return 0;
    if (c->phase == PHASE_IDLE) http_connection_set_phase(c, PHASE_HEAD, c->http->options.head_seconds);
    ssize_t end = head_end(in, n, &c->n_looked_at);
    if (end == 0 && n < HTTP_MAX_HEAD) return 0;
    if (end < 0) return http_refuse(c, 400, "a control character, a bare CR or a bare LF in the head"), 0;
    if (end == 0 && memchr(in, '\n', n)) return http_refuse(c, 431, "headers too long"), 0;
    if (end == 0) return http_refuse(c, 414, "the request target is too long"), 0;
    c->n_looked_at = 0;
    c->asked_at = now_seconds();
    int status = head_parse(&head, in, (size_t)end, max_body, &why);
    c->request = (HttpRequest){.method = head.method, .path = head.target}; /* for http_refuse alone */
    c->request_id = head.fields[HEAD_REQUEST_ID];
    if (status) return http_refuse(c, status, why), 0;
    c->chunked = head.chunked;
    c->has_body = head.chunked || head.length > 0;
    if (n > (size_t)end || !c->has_body) head.fields[HEAD_EXPECT] = NULL; /* who does not wait needs no 100 */
    made = head_write(&head, out, max);
    if (made == 0) return http_refuse(c, 431, "headers too long"), 0;
    *used += (size_t)end;
    c->passed = made;
    c->whole = !c->has_body;
    c->reader = body_begin(head.chunked, head.length, max_body);
    http_connection_set_phase(c, PHASE_BODY, c->http->options.body_seconds);
    return made;
}

/* What of in[0..n) belongs to the body; chunks are made anew. */
static size_t pass_body(HttpConnection *c, const char *in, size_t n, size_t *used, char *out, size_t max) {
    enum { SIZE = 10, CHUNK = SIZE + 2, LAST = 5 }; /* "%08zx\r\n"; data "\r\n"; "0\r\n\r\n" */
    size_t frame = c->chunked ? CHUNK + LAST : 0, start = c->chunked ? SIZE : 0, taken = 0;
    if (c->whole || max <= frame) return 0;
    Buffer data = {.data = out + start, .capacity = max - frame}; /* never more than n, so it does not grow */
    int rc = body_read(&c->reader, in, MIN(n, max - frame), &taken, &data);
    *used += taken;
    if (rc < 0) {
        http_refuse(c, -rc,
                    rc == -413   ? "the body is too long"
                    : rc == -431 ? "a chunk's extension or the trailers are too long"
                                 : "malformed chunk");
        return 0;
    }
    c->whole = rc == 1;
    if (!c->chunked) return data.n;
    size_t made = data.n ? data.n + CHUNK : 0;
    if (data.n) {
        char size[SIZE + 1];
        snprintf(size, sizeof size, "%08x\r\n", (unsigned)data.n);
        memcpy(out, size, SIZE);
        memcpy(out + SIZE + data.n, "\r\n", 2);
    }
    if (c->whole) memcpy(out + made, "0\r\n\r\n", LAST);
    return made + (c->whole ? LAST : 0);
}

static ssize_t later(void) {
    errno = EAGAIN;
    return -1;
}

/* Who has been served in this turn of the loop waits for the next one when it has lasted a while. */
static bool has_had_its_turn(const HttpConnection *c) {
    static const double longest = 2e-3; /* seconds */
    return c->served_in == c->http->turn_began && now_seconds() - c->served_in > longest;
}

static ssize_t pass(HttpConnection *c, char *out, size_t max) {
    char in[HTTP_MAX_HEAD];
    size_t used = 0, made = 0;
    if (c->gone || c->phase == PHASE_REFUSED) return 0;
    if (c->phase == PHASE_REPLY || (c->phase == PHASE_BODY && c->whole)) return later();
    if (has_had_its_turn(c)) return http_gate_ring(c), later();
    ssize_t n = recvfrom(c->fd, in, sizeof in, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return later();
    if (n <= 0) return c->gone = true, n;
    if (c->phase != PHASE_BODY) made = pass_head(c, in, (size_t)n, &used, out, max);
    if (c->phase == PHASE_BODY) made += pass_body(c, in + used, (size_t)n - used, &used, out + made, max - made);
    if (!c->in_hand) c->request = (HttpRequest){0}, c->request_id = NULL;
    if (c->phase == PHASE_REFUSED) return 0;
    c->rest = (size_t)n == sizeof in || used < (size_t)n;
    if (used > 0 && recvfrom(c->fd, in, used, MSG_DONTWAIT, NULL, NULL) != (ssize_t)used) return c->gone = true, 0;
    bool whole = c->phase == PHASE_BODY && c->whole;
    if (!whole && (c->half_closed || (c->rest && used > 0))) http_gate_ring(c);
    if (made == 0 && used == 0 && c->half_closed) return c->gone = true, 0; /* the rest will never come */
    c->served_in = c->http->turn_began;
    return made ? (ssize_t)made : later();
}

/* libmicrohttpd's; all others pass straight through. */
ssize_t recv(int fd, void *buffer, size_t n, int flags) {
    HttpConnection *c = fd >= 0 && fd < HTTP_MAX_FILES ? atomic_load(&connections[fd]) : NULL;
    return c ? pass(c, buffer, n) : recvfrom(fd, buffer, n, flags, NULL, NULL);
}
