#include "server/http/connection.h"

#include <inttypes.h>
#include <math.h>
#include <sys/random.h>
#include <time.h>

static const char *reason(int status) {
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < COUNTOF(reasons); i++)
        if (reasons[i].status == status) return reasons[i].text;
    return "";
}

const char *http_draw_id(char out[HTTP_ID_BYTES]) {
    uint64_t drawn[2];
    BUG_ON(getrandom(drawn, sizeof drawn, 0) != sizeof drawn);
    snprintf(out, HTTP_ID_BYTES, "%016" PRIx64 "%016" PRIx64, drawn[0], drawn[1]);
    return out;
}

void http_reply_head(Buffer *out, const HttpReply *r, const Head *head, bool keep) {
    bool http11 = head->http11;
    char date[64];
    struct tm tm;
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    buffer_print(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n", r->status, reason(r->status), date,
                 r->stream ? "text/event-stream"
                 : r->type ? r->type
                           : "application/json");
    if (!r->stream) buffer_print(out, "Content-Length: %zu\r\n", r->body.n);
    if (r->stream) buffer_text(out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    if (r->stream && http11) buffer_text(out, "Transfer-Encoding: chunked\r\n");
    if (r->allow) buffer_print(out, "Allow: %s\r\n", r->allow);
    if (r->policy)
        buffer_print(
            out, "Content-Security-Policy: %s\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n",
            r->policy);
    if (r->status == 401) buffer_text(out, "WWW-Authenticate: Bearer\r\n");
    double wait = r->retry_after <= 0 && r->status == 503 ? 1 : r->retry_after;
    if (wait > 0) buffer_print(out, "Retry-After: %.0f\r\nretry-after-ms: %.0f\r\n", ceil(wait), ceil(1000 * wait));
    buffer_print(out, "x-request-id: %s\r\n", head->request_id);
    buffer_append(out, r->headers.data, r->headers.n);
    if (!keep) buffer_text(out, "Connection: close\r\n");
    if (keep && !http11) buffer_text(out, "Connection: keep-alive\r\n");
    buffer_text(out, "\r\n");
}

void http_reply_chunk(Buffer *out, const Buffer *data) {
    if (data->n == 0) return; /* it would end the answer */
    buffer_print(out, "%zx\r\n", data->n);
    buffer_append(out, data->data, data->n);
    buffer_text(out, "\r\n");
}
