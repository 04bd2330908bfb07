#include "server/http/reply.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

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
    write_fields(&c->out, c);
    buffer_text(&c->out, "\r\n");
    buffer_append(&c->out, r->body.data, r->body.n);
    bool no_memory = c->out.failed || r->body.failed;
    bool head_only = c->request.method && !strcmp(c->request.method, "HEAD");
    const Buffer *whole = no_memory ? &h->no_memory : &c->out;
    c->rest = whole->data;
    c->n_rest = whole->n - (!head_only ? 0 : no_memory ? strlen(h->handler.no_memory) : r->body.n);
    if (no_memory) r->status = 503;
    c->begun = true;
    h->handler.answered(h->handler.self, r->status);
    http_connection_send_rest(c);
    http_tell(c, false);
    http_connection_forget(c);
    if (c->mhd)
        http_connection_set_phase(c, PHASE_REFUSED, HTTP_LINGER);
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
