#include "server/gate/gate.h"

#include <string.h>

static size_t refuse(Gate *g, int status, const char *why) {
    g->status = status;
    g->why = why;
    return 0;
}

size_t gate_read_head(Gate *g, const char *in, size_t n) {
    size_t blank = 0;
    while (g->n_seen == 0 && n - blank >= 2 && !memcmp(in + blank, "\r\n", 2)) blank += 2; /* RFC 9112, 2.2 */
    in += blank;
    n -= blank;
    ssize_t end = head_end(in, n, &g->n_seen);
    if (end == 0 && n < HTTP_MAX_HEAD) return blank;
    if (end < 0) return refuse(g, 400, "a control character, a bare CR or a bare LF in the head");
    if (end == 0 && memchr(in, '\n', n)) return refuse(g, 431, "headers too long");
    if (end == 0) return refuse(g, 414, "the request target is too long");
    g->head_only = !strncmp(in, "HEAD ", 5);
    buffer_append(&g->text, in, (size_t)end);
    if (g->text.failed) return refuse(g, 503, NULL);
    g->status = head_parse(&g->head, g->text.data, (size_t)end, g->max_body, &g->why);
    g->reader = body_begin(g->head.chunked, g->head.length, g->max_body);
    g->at = g->head.chunked || g->head.length > 0 ? GATE_BODY : GATE_WHOLE;
    return blank + (size_t)end;
}

size_t gate_read_body(Gate *g, const char *in, size_t n) {
    size_t used;
    int rc = body_read(&g->reader, in, n, &used, &g->body);
    if (rc == -400) return refuse(g, 400, "malformed chunk");
    if (rc == -413) return refuse(g, 413, "the body is too long");
    if (rc == -431) return refuse(g, 431, "a chunk's extension or the trailers are too long");
    if (g->body.failed) return refuse(g, 503, NULL);
    if (rc == 1) g->at = GATE_WHOLE;
    return used;
}

void gate_reset(Gate *g) {
    buffer_free(&g->text);
    buffer_free(&g->body);
    *g = (Gate){.max_body = g->max_body};
}
