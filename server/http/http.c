#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/http/connection.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- sleeping and waking ---- */

void http_connection_resume(HttpConnection *c) {
    if (!c->waiting) return;
    c->waiting = false;
    MHD_resume_connection(c->mhd);
    http_loop_nudge(c->http);
}

void http_wake(void *waker) {
    HttpConnection *c = waker;
    pthread_mutex_lock(&c->mutex);
    c->signalled = true;
    http_connection_resume(c);
    pthread_mutex_unlock(&c->mutex);
}

void http_wake_all(Http *h) {
    for (int i = 0; i < h->n_connections; i++) http_wake(&h->connections[i]);
}

/* Whatever happens from here on keeps the next `suspend` from sleeping. False when the answer is of no use any more. */
static bool begin_poll(HttpConnection *c) {
    pthread_mutex_lock(&c->mutex);
    c->signalled = false;
    bool useful = !c->gone && !atomic_load(&c->http->stopping);
    if (c->ping && c->reply.stream) buffer_text(&c->reply.body, ": ping\n\n");
    c->ping = false;
    pthread_mutex_unlock(&c->mutex);
    return useful;
}

/* Puts the connection to sleep unless something has happened since begin_poll. */
static bool suspend(HttpConnection *c) {
    pthread_mutex_lock(&c->mutex);
    bool quiet = !c->signalled && !atomic_load(&c->http->stopping);
    if (quiet) {
        if (c->wrote) c->quiet_since = now_seconds();
        c->wrote = false;
        c->waiting = true;
        MHD_suspend_connection(c->mhd);
    }
    pthread_mutex_unlock(&c->mutex);
    return quiet;
}

static void set_phase(HttpConnection *c, Phase phase, double seconds) {
    pthread_mutex_lock(&c->mutex);
    c->phase = phase;
    c->quiet_since = now_seconds();
    c->deadline = c->quiet_since + seconds;
    c->acked_at = 0;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- answering ---- */

/* Ends a stream that nobody may take for complete. After MHD_CONTENT_READER_END_WITH_ERROR libmicrohttpd 0.9.75 closes
 * the socket only when all older connections have gone; one that can no longer be written it closes at once. */
static ssize_t abandon(HttpConnection *c) {
    shutdown(c->fd, SHUT_RDWR);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t max) {
    HttpConnection *c = cls;
    Buffer *body = &c->reply.body;
    (void)position;
    for (;;) {
        if (c->sent < body->n) {
            size_t n = MIN(max, body->n - c->sent);
            memcpy(out, body->data + c->sent, n);
            c->sent += n;
            c->wrote = true;
            return (ssize_t)n;
        }
        body->n = c->sent = 0;
        if (c->ended) return MHD_CONTENT_READER_END_OF_STREAM;
        if (!begin_poll(c)) return abandon(c);
        c->ended = c->reply.task.poll(c->reply.task.self, &c->reply);
        if (body->n == 0 && !c->ended && suspend(c)) return 0;
    }
}

static void add_header(struct MHD_Response *response, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_header(struct MHD_Response *response, const char *name, const char *fmt, ...) {
    char value[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    MHD_add_response_header(response, name, value);
}

static enum MHD_Result send_reply(HttpConnection *c) {
    enum { BLOCK = 16384 };
    HttpReply *r = &c->reply;
    struct MHD_Response *response;
    if (r->stream) {
        r->status = 200;
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, c, NULL);
    } else { /* libmicrohttpd frees the bytes */
        response = MHD_create_response_from_buffer(r->body.n, r->body.data, MHD_RESPMEM_MUST_FREE);
        r->body = (Buffer){0};
    }
    if (!response) return MHD_NO;
    add_header(response, "Content-Type", "%s",
               r->stream ? "text/event-stream"
               : r->type ? r->type
                         : "application/json");
    if (r->stream) add_header(response, "Cache-Control", "no-cache");
    if (r->stream) add_header(response, "X-Accel-Buffering", "no");
    if (r->allow) add_header(response, "Allow", "%s", r->allow);
    if (r->status == 401) add_header(response, "WWW-Authenticate", "Bearer");
    if (r->retry_after > 0) {
        add_header(response, "Retry-After", "%.0f", ceil(r->retry_after));
        add_header(response, "retry-after-ms", "%.0f", ceil(1000 * r->retry_after));
    }
    if (r->close) add_header(response, "Connection", "close");
    c->http->handler.answered(c->http->handler.self, r->status);
    set_phase(c, PHASE_REPLY, 0);
    enum MHD_Result rc = MHD_queue_response(c->mhd, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result send_when_ready(HttpConnection *c) {
    HttpTask *task = &c->reply.task;
    while (begin_poll(c)) {
        if (task->poll(task->self, &c->reply)) return send_reply(c);
        if (suspend(c)) return MHD_YES;
    }
    return MHD_NO;
}

/* ---- receiving ---- */

static HttpRequest request_of(HttpConnection *c, const char *method, const char *path) {
    return (HttpRequest){
        .method = method,
        .path = path,
        .authorization = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Authorization"),
        .api_key = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "X-Api-Key"),
        .fetch_site = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Sec-Fetch-Site"),
        .body = c->body.data,
        .n_body = c->body.n,
        .waker = c,
    };
}

static enum MHD_Result refuse(HttpConnection *c, int status, const char *why) {
    c->http->handler.refuse(c->http->handler.self, status, why, &c->reply);
    c->reply.close = true;
    return send_reply(c);
}

static bool has_body(HttpConnection *c) {
    const char *length = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Content-Length");
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Transfer-Encoding") || (length && strcmp(length, "0"));
}

static enum MHD_Result see_head(HttpConnection *c, const char *method, const char *path, const char *version) {
    const HttpHandler *handler = &c->http->handler;
    const char *why = "malformed request target";
    int status = c->uri_status;
    if (status == 414) why = "the request target is too long";
    if (!status) status = http_gate_head(c->mhd, method, version, (size_t)c->http->options.max_body, &why);
    if (status) return refuse(c, status, why);
    HttpRequest request = request_of(c, method, path);
    if (!handler->admit(handler->self, &request, &c->reply) && has_body(c)) {
        c->reply.close = true; /* else the body would be read as the next request */
        return send_reply(c);
    }
    set_phase(c, PHASE_BODY, c->http->options.body_seconds);
    return MHD_YES;
}

/* A chunked body says too late how long it is. Up to PATIENCE times the limit is dropped, so that the client gets to
 * read its 413, for libmicrohttpd takes no answer before the end of the body. */
static enum MHD_Result see_body(HttpConnection *c, const char *data, size_t *n) {
    enum { PATIENCE = 16 };
    size_t limit = (size_t)c->http->options.max_body;
    c->n_received += *n;
    if (c->n_received <= limit) buffer_append(&c->body, data, *n);
    *n = 0;
    return c->n_received <= PATIENCE * limit ? MHD_YES : MHD_NO;
}

static enum MHD_Result answer(HttpConnection *c, const char *method, const char *path) {
    const HttpHandler *handler = &c->http->handler;
    if (c->n_received > (size_t)c->http->options.max_body) return refuse(c, 413, "the body is too long");
    if (c->reply.status) return send_reply(c); /* refused by its head; sent now, libmicrohttpd keeps the connection */
    HttpRequest request = request_of(c, method, path);
    handler->handle(handler->self, &request, &c->reply);
    buffer_free(&c->body);
    if (!c->reply.task.self || c->reply.stream) return send_reply(c);
    set_phase(c, PHASE_REPLY, 0);
    return send_when_ready(c);
}

/* ---- libmicrohttpd's callbacks ---- */

static HttpConnection *connection_of(struct MHD_Connection *mhd) {
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode n) {
    Http *h = cls;
    if (n == MHD_CONNECTION_NOTIFY_STARTED) {
        HttpConnection *c = h->first_free;
        BUG_ON(!c);
        h->first_free = c->next_free;
        *context = c;
        pthread_mutex_lock(&c->mutex);
        c->mhd = mhd;
        c->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        c->generation++;
        c->gone = c->ping = c->signalled = c->waiting = false;
        c->phase = PHASE_HEAD;
        c->deadline = now_seconds() + h->options.head_seconds;
        pthread_mutex_unlock(&c->mutex);
        int place = (int)(c - h->connections);
        if (place >= atomic_load(&h->n_used)) atomic_store(&h->n_used, place + 1);
        http_watch_add(c);
        return;
    }
    HttpConnection *c = *context;
    pthread_mutex_lock(&c->mutex);
    http_watch_remove(c);
    c->mhd = NULL;
    c->phase = PHASE_FREE;
    c->waiting = false;
    pthread_mutex_unlock(&c->mutex);
    c->next_free = h->first_free;
    h->first_free = c;
}

/* The request line is here: a new request begins. */
static void *on_uri(void *cls, const char *uri, struct MHD_Connection *mhd) {
    Http *h = cls;
    HttpConnection *c = connection_of(mhd);
    c->uri_status = http_gate_uri(uri);
    if (c->phase == PHASE_IDLE) set_phase(c, PHASE_HEAD, h->options.head_seconds);
    return c;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *n, void **context) {
    HttpConnection *c = connection_of(mhd);
    (void)cls, (void)context;
    if (c->phase == PHASE_HEAD) return see_head(c, method, path, version);
    if (*n > 0) return see_body(c, data, n);
    if (c->phase == PHASE_BODY) return answer(c, method, path);
    return send_when_ready(c);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code) {
    HttpConnection *c = connection_of(mhd);
    (void)cls, (void)context, (void)code;
    pthread_mutex_lock(&c->mutex);
    c->waiting = false;
    c->phase = PHASE_IDLE;
    c->deadline = now_seconds() + c->http->options.idle_seconds;
    pthread_mutex_unlock(&c->mutex);
    if (c->reply.task.self) c->reply.task.close(c->reply.task.self);
    buffer_free(&c->reply.body);
    buffer_free(&c->body);
    c->reply = (HttpReply){0};
    c->n_received = c->sent = 0;
    c->ended = c->wrote = false;
}

static void on_log(void *cls, const char *fmt, va_list ap) {
    char text[256];
    (void)cls;
    vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\r\n")] = 0;
    log_line("http: %s", text);
}

/* ---- start and stop ---- */

static void make_connections(Http *h) {
    h->n_connections = http_affordable_connections(h->options.max_connections);
    h->connections = xcalloc((size_t)h->n_connections, sizeof *h->connections);
    for (int i = h->n_connections; i-- > 0;) {
        HttpConnection *c = &h->connections[i];
        c->http = h;
        pthread_mutex_init(&c->mutex, NULL);
        c->next_free = h->first_free;
        h->first_free = c;
    }
}

static struct MHD_Daemon *start_daemon(Http *h) {
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        h->listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->n_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)(HTTP_MAX_HEAD + 4096), MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_URI_LOG_CALLBACK, on_uri, h, MHD_OPTION_END);
}

int http_start(Http **out, const HttpOptions *options, const HttpHandler *handler, Err *err) {
    Http *h = xcalloc(1, sizeof *h);
    h->options = *options;
    h->handler = *handler;
    h->listen_fd = http_listen(options, &h->port, err);
    if (h->listen_fd < 0) goto fail;
    make_connections(h);
    if (http_watch_start(h, err)) goto fail;
    h->daemon = start_daemon(h);
    if (h->daemon && http_loop_start(h) == 0) {
        *out = h;
        return 0;
    }
    err_set(err, "libmicrohttpd does not start on %s port %d", options->host, h->port);
    atomic_store(&h->stopping, true);
    http_watch_stop(h);
    if (h->daemon) MHD_stop_daemon(h->daemon), h->listen_fd = -1; /* which closes it */
    close(h->epoll_fd);
fail:
    if (h->listen_fd >= 0) close(h->listen_fd);
    http_free(h);
    return -1;
}

int http_port(const Http *h) { return h->port; }

int http_busy(Http *h) {
    int busy = 0;
    for (int i = 0; i < atomic_load(&h->n_used); i++) {
        HttpConnection *c = &h->connections[i];
        pthread_mutex_lock(&c->mutex);
        busy += c->phase == PHASE_BODY || c->phase == PHASE_REPLY;
        pthread_mutex_unlock(&c->mutex);
    }
    return busy;
}

void http_stop(Http *h) {
    atomic_store(&h->stopping, true);
    http_watch_stop(h);
    http_loop_stop(h);
    http_wake_all(h); /* libmicrohttpd must not be stopped with suspended connections */
    MHD_stop_daemon(h->daemon);
    close(h->nudge_fd); /* connections that end, up to here, still use both */
    close(h->epoll_fd);
}

void http_free(Http *h) {
    for (int i = 0; i < h->n_connections; i++) pthread_mutex_destroy(&h->connections[i].mutex);
    free(h->connections);
    free(h);
}
