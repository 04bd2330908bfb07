#include "server/http/library.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/http/recv.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

/* ---- the head of an answer ---- */

/* For a request without one. */
static const char *draw_id(HttpConnection *c) {
    uint64_t drawn[2];
    BUG_ON(getrandom(drawn, sizeof drawn, 0) != sizeof drawn);
    snprintf(c->drawn_id, sizeof c->drawn_id, "%016" PRIx64 "%016" PRIx64, drawn[0], drawn[1]);
    return c->drawn_id;
}

/* The fields of an answer, but for those about framing and the time. */
static void write_fields(Buffer *out, HttpConnection *c) {
    const HttpReply *r = &c->reply;
    if (!c->request_id) c->request_id = draw_id(c);
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
    buffer_print(out, "x-request-id: %s\r\n", c->request_id);
    buffer_append(out, r->headers.data, r->headers.n);
    if (r->close) buffer_text(out, "Connection: close\r\n");
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

/* ---- answering ---- */

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
        atomic_store(&c->news, false);
        c->ended = c->reply.task.poll(c->reply.task.self, &c->reply) || body->failed;
        if (body->n == 0 && !c->ended && http_connection_suspend(c)) return 0;
    }
}

/* It takes the body's bytes; NULL when memory runs out. */
static struct MHD_Response *make_response(HttpConnection *c) {
    enum { BLOCK = 8192 };
    HttpReply *r = &c->reply;
    Buffer fields = {0};
    struct MHD_Response *response = NULL;
    write_fields(&fields, c);
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

/* What was made at start, as far as the socket takes it. */
static enum MHD_Result send_no_memory(HttpConnection *c) {
    const struct Http *h = c->http;
    size_t body = c->gate.head_only ? strlen(h->handler.no_memory) : 0;
    send(c->fd, h->no_memory.data, h->no_memory.n - body, MSG_NOSIGNAL | MSG_DONTWAIT);
    c->reply.status = 503;
    c->begun = true;
    h->handler.answered(h->handler.self, 503);
    http_connection_end_request(c, false);
    return MHD_NO;
}

static enum MHD_Result send_reply(HttpConnection *c) {
    HttpReply *r = &c->reply;
    if (r->stream) r->status = 200;
    struct MHD_Response *response = make_response(c);
    if (!response) return send_no_memory(c);
    c->begun = true;
    c->http->handler.answered(c->http->handler.self, r->status);
    enum MHD_Result rc = MHD_queue_response(c->mhd, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return rc;
}

/* Asks the handler, or the task that it has made. */
static bool has_answer(HttpConnection *c) {
    HttpReply *r = &c->reply;
    if (!r->task.self && !r->status) {
        c->request.body = c->gate.body.data;
        c->request.n_body = c->gate.body.n;
        c->http->handler.handle(c->http->handler.self, &c->request, r);
        http_connection_drop_body(c);
        c->gone = c->gone || (r->task.self && c->half_closed); /* nobody waits for it */
    }
    return !c->gone && (!r->task.self || r->stream || r->task.poll(r->task.self, r));
}

/* ---- libmicrohttpd's callbacks ---- */

/* A library that has read what it was not given is not served: nobody has judged that. */
static bool is_ours(HttpConnection *c) {
    const union MHD_ConnectionInfo *head = MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    bool ours = c->passed > 0 && head && head->header_size == c->passed;
    if (!ours) log_error("http: libmicrohttpd %s has read bytes that were not passed to it", MHD_get_version());
    c->passed = 0;
    return ours;
}

/* Called twice, once for the sake of a body that the library never has, and whenever the connection is resumed. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *n, void **context) {
    HttpConnection *c = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    bool first = !*context;
    (void)cls, (void)path, (void)method, (void)version, (void)data, (void)n;
    *context = c;
    if (first) return is_ours(c) ? MHD_YES : (c->gone = true, MHD_NO);
    while (!c->gone) {
        atomic_store(&c->news, false);
        if (c->phase == PHASE_REPLY && has_answer(c)) return send_reply(c);
        if (!c->gone && http_connection_suspend(c)) return MHD_YES;
    }
    return MHD_NO;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code) {
    HttpConnection *c = *context;
    (void)cls, (void)mhd;
    http_connection_end_request(c, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    http_connection_set_phase(c, PHASE_IDLE, c->http->options.idle_seconds);
    if (c->left || c->half_closed) http_recv_ring(c); /* the next request, or the end, has come with this one */
}

/* A copy of the socket that the library is about to close lingers, so that the peer reads its answer before it hears of
 * bytes that nobody wanted. */
static void leave(HttpConnection *c) {
    http_recv_keep(c->fd, NULL);
    epoll_ctl(c->http->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    http_connection_end_request(c, true);
    c->fd = c->gone ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    http_connection_linger(c);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    struct Http *h = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = h->arriving;
        h->arriving->mhd = mhd;
    } else {
        leave(*context);
    }
}

struct MHD_Daemon *http_library_start(struct Http *h) {
    enum { POOL = 18 << 10 }; /* bytes a connection: an answer's head, or a piece of it */
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)(h->n_connections + HTTP_SPARE_PLACES), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)POOL, MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION,
                            on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_END);
}

bool http_library_has_work(struct Http *h) {
    MHD_UNSIGNED_LONG_LONG ms;
    return MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms == 0;
}

/* What is at hand, and, as it does one thing a round, what has come of that. */
void http_library_run(struct Http *h) {
    enum { ROUNDS = 4 };
    for (int i = 0; i < ROUNDS && (i == 0 || http_library_has_work(h)); i++) MHD_run(h->daemon);
}
