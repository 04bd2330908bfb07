#include "server/http/library.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes a connection of the library's pool: a head as the gate writes it, then an answer's, or a piece of it. */
enum { POOL = 18 << 10 };

/* By descriptor. Other threads look here too, for sockets of their own. */
static _Atomic(HttpConnection *) connections[HTTP_MAX_FILES];

/* ---- what the library reads ---- */

/* epoll tells the library once when bytes have come; of those that stay in the socket it must be told again. A socket
 * that is not in its set is one that it is going to read, or to add, which tells it too. */
void http_library_ring(HttpConnection *c) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLET, .data.ptr = c->mhd};
    int library = MHD_get_daemon_info(c->http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    epoll_ctl(library, EPOLL_CTL_MOD, c->fd, &e);
}

/* What the library hears when it reads: nothing is here yet, or the peer has gone. */
static ssize_t later(void) { return errno = EAGAIN, -1; }
static ssize_t end(HttpConnection *c) { return c->gone = true, 0; }

/* Who has been served in this turn of the loop waits for the next one when it has lasted a while. */
static bool has_had_its_turn(const HttpConnection *c) {
    return c->served_in == c->http->turn_began && now_seconds() - c->served_in > 2e-3;
}

static ssize_t refuse(HttpConnection *c, const Passed *p) {
    const Head *head = &p->head;
    if (!c->in_hand)
        c->request = (HttpRequest){.method = head->method,
                                   .path = head->target,
                                   .request_id = head->fields[HEAD_REQUEST_ID],
                                   .trace_parent = head->fields[HEAD_TRACE_PARENT]};
    http_refuse(c, p->status, p->why);
    return 0;
}

static ssize_t pass(HttpConnection *c, char *out, size_t max) {
    char in[HTTP_MAX_HEAD];
    if (!c->pool) c->pool = out;
    if (c->gone || c->phase == PHASE_REFUSED) return 0;
    if (c->gate.at == GATE_WHOLE) return later();
    if (has_had_its_turn(c)) return http_library_ring(c), later();
    ssize_t n = recvfrom(c->fd, in, sizeof in, MSG_PEEK | MSG_DONTWAIT, NULL, NULL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return later();
    if (n <= 0) return end(c);
    Passed p = gate_pass(&c->gate, in, (size_t)n, out, max);
    if (p.n_head > 0) {
        c->asked_at = now_seconds();
        c->passed = p.n_head;
        http_connection_set_phase(c, PHASE_BODY, c->http->options.body_seconds);
    } else if (c->phase == PHASE_IDLE && p.used < (size_t)n) {
        http_connection_set_phase(c, PHASE_HEAD, c->http->options.head_seconds);
    }
    if (p.status) return refuse(c, &p);
    c->left = (size_t)n == sizeof in || p.used < (size_t)n;
    if (p.used > 0 && recvfrom(c->fd, in, p.used, MSG_DONTWAIT, NULL, NULL) != (ssize_t)p.used) return end(c);
    if (p.made == 0 && p.used == 0 && c->half_closed) return end(c); /* the rest will never come */
    if (c->gate.at != GATE_WHOLE && (c->half_closed || (c->left && p.used > 0))) http_library_ring(c);
    c->served_in = c->http->turn_began;
    return p.made ? (ssize_t)p.made : later();
}

/* libmicrohttpd's; all others pass straight through. */
ssize_t recv(int fd, void *buffer, size_t n, int flags) {
    HttpConnection *c = fd >= 0 && fd < HTTP_MAX_FILES ? atomic_load(&connections[fd]) : NULL;
    return c ? pass(c, buffer, n) : recvfrom(fd, buffer, n, flags, NULL, NULL);
}

/* ---- answering ---- */

/* Wakes that come from here on are for what it has not seen. */
static bool poll_task(HttpConnection *c) {
    atomic_store(&c->sleep, HTTP_AWAKE);
    return c->reply.task.poll(c->reply.task.self, &c->reply);
}

/* The library asks for the next bytes of a stream. When memory runs out they are the handler's last words. A socket
 * that can no longer be written makes the library close at once. */
static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t max) {
    HttpConnection *c = cls;
    Buffer *body = &c->reply.body;
    (void)position;
    for (;;) {
        const char *data = body->failed ? c->http->handler.no_memory_event : body->data;
        size_t n = body->failed ? strlen(data) : body->n;
        if (c->sent < n) {
            n = MIN(max, n - c->sent);
            memcpy(out, data + c->sent, n);
            c->sent += n;
            c->deadline = now_seconds() + c->http->options.ping_seconds;
            return (ssize_t)n;
        }
        body->n = c->sent = 0;
        if (c->ended || c->gone) return MHD_CONTENT_READER_END_OF_STREAM;
        c->ended = poll_task(c) || body->failed;
        if (body->n == 0 && !c->ended) return http_connection_suspend(c), 0;
    }
}

/* "Name: value\r\n" after "Name: value\r\n", cut up in place. */
static bool add_fields(struct MHD_Response *response, char *line) {
    while (*line) {
        char *value = strstr(line, ": "), *end = value ? strstr(value, "\r\n") : NULL;
        BUG_ON(!end);
        *value = *end = 0;
        if (MHD_add_response_header(response, line, value + 2) == MHD_NO) return false;
        line = end + 2;
    }
    return true;
}

/* It takes the bytes of c->reply.body; NULL when memory runs out. */
static struct MHD_Response *make_response(HttpConnection *c) {
    enum { BLOCK = 8192 };
    HttpReply *r = &c->reply;
    Buffer fields = {0};
    struct MHD_Response *response = NULL;
    http_connection_write_fields(c, &fields);
    buffer_append(&fields, "", 1);
    if (!fields.failed && !r->body.failed)
        response = r->stream ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, c, NULL)
                             : MHD_create_response_from_buffer(r->body.n, r->body.data, MHD_RESPMEM_MUST_FREE);
    if (response && !r->stream) r->body = (Buffer){0};
    if (response && !add_fields(response, fields.data)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    buffer_free(&fields);
    return response;
}

static enum MHD_Result send_reply(HttpConnection *c) {
    HttpReply *r = &c->reply;
    if (r->stream) r->status = 200;
    size_t whole = r->stream ? 0 : r->body.n;
    struct MHD_Response *response = make_response(c);
    if (!response) {
        r->body.failed = true;
        return http_refuse_as_filled(c), MHD_NO;
    }
    c->begun = true;
    c->http->handler.answered(c->http->handler.self, r->status);
    http_connection_set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    enum MHD_Result rc = MHD_queue_response(c->mhd, (unsigned)r->status, response);
    MHD_destroy_response(response);
    http_connection_hold(c, whole);
    return rc;
}

static enum MHD_Result send_when_ready(HttpConnection *c) {
    if (c->gone) return MHD_NO;
    if (poll_task(c)) return send_reply(c);
    return http_connection_suspend(c), MHD_YES;
}

/* ---- receiving ---- */

static const char *field(const HttpConnection *c, HeadField f) {
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, head_name(f));
}

/* A library that has read what the gate has not passed is not served: nobody has judged that. */
static enum MHD_Result mistrust(HttpConnection *c) {
    log_error("http: libmicrohttpd %s has read bytes that were not passed to it", MHD_get_version());
    return c->gone = true, MHD_NO;
}

static enum MHD_Result see_head(HttpConnection *c, const char *method, const char *path) {
    const HttpHandler *handler = &c->http->handler;
    const union MHD_ConnectionInfo *head = MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (c->passed == 0 || !head || head->header_size != c->passed) return mistrust(c);
    c->passed = 0;
    c->in_hand = true;
    c->request = (HttpRequest){
        .method = method,
        .path = path,
        .authorization = field(c, HEAD_AUTHORIZATION),
        .api_key = field(c, HEAD_API_KEY),
        .fetch_site = field(c, HEAD_FETCH_SITE),
        .host = field(c, HEAD_HOST),
        .origin = field(c, HEAD_ORIGIN),
        .request_id = field(c, HEAD_REQUEST_ID),
        .trace_parent = field(c, HEAD_TRACE_PARENT),
        .wanted_method = field(c, HEAD_WANTED_METHOD),
        .wanted_headers = field(c, HEAD_WANTED_HEADERS),
        .client = c->client,
        .crowded = http_connection_is_spare(c),
        .wake = http_wake,
        .waker = c,
    };
    c->reply.close = c->request.crowded;
    bool admitted = handler->admit(handler->self, &c->request, &c->reply);
    if (!admitted && c->gate.has_body) return http_refuse_as_filled(c), MHD_NO; /* or it would be the next request */
    return MHD_YES;
}

/* Who holds back the largest body pays for the room that there is for all. */
static HttpConnection *largest_body(struct Http *h) {
    HttpConnection *most = h->connections;
    for (int i = 1; i < atomic_load(&h->n_used); i++)
        if (h->connections[i].body.capacity > most->body.capacity) most = &h->connections[i];
    return most;
}

/* Growing by twice its room, a body could take more than the largest may have, which is all that one can count on. */
static void take_body(HttpConnection *c, const char *data, size_t n) {
    size_t most = (size_t)c->http->options.max_body;
    bool full = c->body.n + n > c->body.capacity;
    if (full && 2 * c->body.capacity > most) buffer_reserve(&c->body, most);
    buffer_append(&c->body, data, n);
}

static enum MHD_Result see_body(HttpConnection *c, const char *data, size_t *n) {
    struct Http *h = c->http;
    size_t before = c->body.capacity;
    take_body(c, data, *n);
    *n = 0;
    h->n_body_bytes += c->body.capacity - before;
    h->most_body_bytes = MAX(h->most_body_bytes, h->n_body_bytes);
    if (c->body.failed) {
        c->reply.body.failed = true;
        return http_refuse_as_filled(c), MHD_NO;
    }
    while (h->n_body_bytes > (size_t)h->options.max_bodies)
        http_refuse(largest_body(h), 503, "the bodies that are being received take all the memory there is for them");
    return c->phase == PHASE_REFUSED ? MHD_NO : MHD_YES;
}

static enum MHD_Result answer(HttpConnection *c) {
    const HttpHandler *handler = &c->http->handler;
    if (c->gate.at != GATE_WHOLE) return mistrust(c);
    if (c->reply.status) return send_reply(c); /* refused by its head; so late the library keeps the connection */
    c->request.body = c->body.data;
    c->request.n_body = c->body.n;
    handler->handle(handler->self, &c->request, &c->reply);
    http_connection_drop_body(c);
    if (!c->reply.task.self) return send_reply(c);
    if (c->half_closed) return c->gone = true, MHD_NO; /* nobody waits for it */
    if (c->reply.stream) return send_reply(c);
    http_connection_set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    return send_when_ready(c);
}

/* ---- the memory of idle connections ---- */

static void set_wiped(HttpConnection *c, bool wiped) {
    c->http->n_wiped += wiped - c->wiped;
    c->wiped = wiped;
}

static bool is_zero(const char *p, size_t n) { return *p == 0 && memcmp(p, p + 1, n - 1) == 0; }

/* After an answer the library writes zeros over its whole pool, most of which had cost nothing. Pages of zeros that go
 * back to the system are that again when they are touched: nothing changes by it, whatever the library does. The pool
 * is a block of its own, in which no other thread writes meanwhile; a library that first reads elsewhere keeps it. */
static void give_pool_back(const HttpConnection *c) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), pool = (uintptr_t)c->pool;
    uintptr_t begin = (pool + page - 1) / page * page, end = (pool + POOL) / page * page;
    if (!c->pool || malloc_usable_size(c->pool) < POOL || begin >= end) return;
    if (is_zero((char *)begin, end - begin)) madvise((char *)begin, end - begin, MADV_DONTNEED);
}

void http_library_give_back(struct Http *h) {
    for (int i = 0; i < atomic_load(&h->n_used) && h->n_wiped > 0; i++) {
        HttpConnection *c = &h->connections[i];
        if (c->wiped && c->phase == PHASE_IDLE) give_pool_back(c);
        set_wiped(c, false);
    }
}

/* ---- libmicrohttpd's callbacks ---- */

static HttpConnection *connection_of(struct MHD_Connection *mhd) {
    return connections[MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd];
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *n, void **context) {
    HttpConnection *c = connection_of(mhd);
    (void)cls, (void)version, (void)context;
    if (c->phase == PHASE_REFUSED) return MHD_NO;
    if (!c->in_hand) return see_head(c, method, path);
    if (*n > 0) return see_body(c, data, n);
    return c->phase == PHASE_BODY ? answer(c) : send_when_ready(c);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code) {
    HttpConnection *c = connection_of(mhd);
    (void)cls, (void)context;
    if (c->phase == PHASE_REFUSED) return;
    if (c->in_hand) http_connection_end_request(c, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    set_wiped(c, true);
    http_connection_set_phase(c, PHASE_IDLE, c->http->options.idle_seconds);
    if (c->left || c->half_closed) http_library_ring(c); /* the next request, or the end, has come with this one */
}

/* A copy of the socket that the library is about to close lingers, so that the peer reads its answer before it hears of
 * bytes that nobody wanted. */
static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    HttpConnection *c = connection_of(mhd);
    (void)cls, (void)context;
    c->mhd = code == MHD_CONNECTION_NOTIFY_STARTED ? mhd : NULL;
    c->pool = NULL;
    set_wiped(c, false);
    if (c->mhd) return;
    if (c->in_hand) { /* epoll has refused the socket: nobody said that the request ended, and its memory is gone */
        c->request = (HttpRequest){0};
        http_connection_end_request(c, true);
    }
    atomic_store(&connections[c->fd], NULL);
    epoll_ctl(c->http->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    c->fd = c->gone ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    http_connection_linger(c);
}

/* ---- its life ---- */

struct MHD_Daemon *http_library_start(struct Http *h) {
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, NULL, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)(h->n_connections + HTTP_SPARE_PLACES), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)POOL, MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                            (unsigned)h->options.max_per_address,
#if MHD_VERSION >= 0x01000000
                            MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
                            MHD_OPTION_STRICT_FOR_CLIENT, 1,
#endif
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL, MHD_OPTION_NOTIFY_COMPLETED,
                            on_completed, NULL, MHD_OPTION_END);
}

bool http_library_has_work(struct Http *h) {
    MHD_UNSIGNED_LONG_LONG ms;
    return MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms == 0;
}

/* What is woken sleeps, and only here can it be closed: it is still there. */
void http_library_round(struct Http *h) {
    HttpConnection *c = atomic_exchange(&h->woken, NULL);
    for (HttpConnection *next; c; c = next) {
        next = c->next_woken;
        MHD_resume_connection(c->mhd);
    }
    MHD_run(h->daemon);
}

/* As it does one thing a round, also what has come of that. */
void http_library_run(struct Http *h) {
    enum { ROUNDS = 4 };
    for (int i = 0; i < ROUNDS && (i == 0 || http_library_has_work(h)); i++) http_library_round(h);
}

bool http_library_take(HttpConnection *c, const struct sockaddr *address, socklen_t n) {
    atomic_store(&connections[c->fd], c);
    bool taken = MHD_add_connection(c->http->daemon, c->fd, address, n) == MHD_YES;
    if (!taken) atomic_store(&connections[c->fd], NULL);
    return taken;
}
