/* Answers: the library's, and those that are sent past it. */
#include "base/clock.h"
#include "server/http/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

const char *http_draw_id(char out[HTTP_ID_BYTES]) {
    uint64_t drawn[2];
    BUG_ON(getrandom(drawn, sizeof drawn, 0) != sizeof drawn);
    snprintf(out, HTTP_ID_BYTES, "%016" PRIx64 "%016" PRIx64, drawn[0], drawn[1]);
    return out;
}

/* The fields of an answer, but for those about framing and the time. */
static void write_fields(Buffer *out, HttpConnection *c) {
    const HttpReply *r = &c->reply;
    if (!c->request_id) c->request_id = http_draw_id(c->drawn_id);
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

/* ---- by the library ---- */

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

struct MHD_Response *http_reply_response(HttpConnection *c, MHD_ContentReaderCallback stream) {
    enum { BLOCK = 8192 };
    HttpReply *r = &c->reply;
    Buffer fields = {0};
    struct MHD_Response *response = NULL;
    write_fields(&fields, c);
    buffer_append(&fields, "", 1);
    if (!fields.failed && !r->body.failed && r->stream)
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream, c, NULL);
    if (!fields.failed && !r->body.failed && !r->stream)
        response = MHD_create_response_from_buffer(r->body.n, r->body.data, MHD_RESPMEM_MUST_FREE);
    if (response && !r->stream) r->body = (Buffer){0};
    if (response && !add_fields(response, fields.data)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    buffer_free(&fields);
    return response;
}

/* ---- past it ---- */

/* False when the socket takes no more now. */
static bool send_all(HttpConnection *c, const char *text, size_t n, size_t *sent) {
    while (*sent < n && !c->gone) {
        ssize_t k = send(c->fd, text + *sent, n - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno == EAGAIN) return false;
        if (k < 0 && errno != EINTR) c->gone = true;
        if (k > 0) *sent += (size_t)k;
    }
    return true;
}

bool http_send_rest(HttpConnection *c) {
    size_t sent = 0;
    bool all = send_all(c, c->out.data, c->out.n, &sent);
    c->out.n -= sent;
    if (!all && sent > 0) memmove(c->out.data, c->out.data + sent, c->out.n);
    if (all) {
        buffer_free(&c->out);
        shutdown(c->fd, SHUT_WR);
    }
    return all;
}

void http_refuse_as_filled(HttpConnection *c) {
    enum { LINGER = 2 }; /* seconds */
    HttpReply *r = &c->reply;
    time_t now = time(NULL);
    char date[64];
    struct tm tm;
    r->close = true;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    buffer_print(&c->out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Length: %zu\r\n", r->status,
                 MHD_get_reason_phrase_for((unsigned)r->status), date, r->body.n);
    write_fields(&c->out, c);
    buffer_text(&c->out, "\r\n");
    if (!c->request.method || strcmp(c->request.method, "HEAD") != 0) buffer_append(&c->out, r->body.data, r->body.n);
    bool no_memory = c->out.failed || r->body.failed;
    if (no_memory) buffer_free(&c->out);
    if (no_memory) r->status = 503;
    c->begun = true;
    c->http->handler.answered(c->http->handler.self, r->status);
    size_t sent = 0; /* what is said without memory takes none */
    if (no_memory) send_all(c, c->http->no_memory.data, c->http->no_memory.n, &sent);
    http_send_rest(c);
    http_tell(c, false);
    if (c->mhd)
        http_connection_set_phase(c, PHASE_REFUSED, LINGER);
    else
        http_connection_linger(c);
}

void http_refuse(HttpConnection *c, int status, const char *why) {
    c->http->handler.refuse(c->http->handler.self, status, why, &c->reply);
    http_refuse_as_filled(c);
}

void http_tell(HttpConnection *c, bool hung_up) {
    const HttpHandler *handler = &c->http->handler;
    uint64_t written = handler->visited ? tcp_progress(c->fd).written : 0;
    if (handler->visited)
        handler->visited(handler->self, &(HttpVisit){.client = c->client,
                                                     .request_id = c->request_id,
                                                     .method = c->request.method,
                                                     .path = c->request.path,
                                                     .status = c->begun ? c->reply.status : 0,
                                                     .bytes = written - c->told,
                                                     .seconds = c->asked_at ? now_seconds() - c->asked_at : 0,
                                                     .stream = c->reply.stream,
                                                     .hung_up = hung_up,
                                                     .task = &c->reply.task});
    c->told = written;
}
