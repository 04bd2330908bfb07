#include "server/http/library.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/http/recv.h"
#include "server/http/reply.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- answering ---- */

static void suspend(HttpConnection *c) {
    c->suspended = true;
    MHD_suspend_connection(c->mhd);
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
        if (c->ping) buffer_text(body, ": ping\n\n");
        c->ping = false;
        c->ended = c->reply.task.poll(c->reply.task.self, &c->reply) || body->failed;
        if (body->n == 0 && !c->ended) return suspend(c), 0;
    }
}

static enum MHD_Result send_reply(HttpConnection *c) {
    HttpReply *r = &c->reply;
    if (r->stream) r->status = 200;
    struct MHD_Response *response = http_reply_response(c, read_stream);
    if (!response) {
        r->body.failed = true;
        return http_refuse_as_filled(c), MHD_NO;
    }
    c->begun = true;
    c->http->handler.answered(c->http->handler.self, r->status);
    http_connection_set_phase(c, PHASE_REPLY, c->http->options.ping_seconds);
    enum MHD_Result rc = MHD_queue_response(c->mhd, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result send_when_ready(HttpConnection *c) {
    HttpTask *task = &c->reply.task;
    if (c->gone) return MHD_NO;
    if (task->poll(task->self, &c->reply)) return send_reply(c);
    suspend(c);
    return MHD_YES;
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
        .wanted_method = field(c, HEAD_WANTED_METHOD),
        .wanted_headers = field(c, HEAD_WANTED_HEADERS),
        .client = c->client,
        .crowded = http_connection_is_spare(c),
        .waker = c,
    };
    c->request_id = field(c, HEAD_REQUEST_ID);
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

static enum MHD_Result see_body(HttpConnection *c, const char *data, size_t *n) {
    struct Http *h = c->http;
    size_t before = c->body.capacity;
    buffer_append(&c->body, data, *n);
    *n = 0;
    h->n_body_bytes += c->body.capacity - before;
    h->most_body_bytes = MAX(h->most_body_bytes, h->n_body_bytes);
    if (c->body.failed) {
        c->reply.body.failed = true;
        return http_refuse_as_filled(c), MHD_NO;
    }
    while (h->n_body_bytes > (size_t)h->options.max_bodies) {
        HttpConnection *most = largest_body(h);
        http_refuse(most, 503, "the bodies that are being received take all the memory there is for them");
        if (most == c) return MHD_NO;
    }
    return MHD_YES;
}

static enum MHD_Result answer(HttpConnection *c) {
    const HttpHandler *handler = &c->http->handler;
    if (c->gate.at != GATE_WHOLE) return mistrust(c);
    if (c->reply.status)
        return send_reply(c); /* refused by its head; sent only now, the library keeps the connection */
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

/* ---- libmicrohttpd's callbacks ---- */

static HttpConnection *connection_of(struct MHD_Connection *mhd) {
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
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
    if (c->in_hand) http_tell(c, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
    http_connection_forget(c);
    http_connection_set_phase(c, PHASE_IDLE, c->http->options.idle_seconds);
    if (c->left || c->half_closed) http_recv_ring(c); /* the next request, or the end, has come with this one */
}

/* A copy of the socket that the library is about to close lingers, so that the peer reads its answer before it hears of
 * bytes that nobody wanted. */
static void leave(HttpConnection *c) {
    http_recv_keep(c->fd, NULL);
    epoll_ctl(c->http->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    c->mhd = NULL;
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
    enum { POOL = 18 << 10 }; /* bytes a connection: a head as the gate writes it, then an answer's, or a piece of it */
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(h->n_connections + HTTP_SPARE_PLACES), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)h->options.max_per_address,
#if MHD_VERSION >= 0x01000000
        MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
#endif
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_END);
}
