#include "server/gate/gate.h"

#include <stdio.h>
#include <string.h>

static void refuse(Passed *p, int status, const char *why) {
    p->status = status;
    p->why = why;
}

static void pass_head(Gate *g, Passed *p, char *in, size_t n, char *out, size_t max) {
    while (g->n_seen == 0 && n - p->used >= 2 && !memcmp(in + p->used, "\r\n", 2)) p->used += 2; /* RFC 9112, 2.2 */
    in += p->used;
    n -= p->used;
    ssize_t end = head_end(in, n, &g->n_seen);
    if (end == 0 && n < HTTP_MAX_HEAD) return;
    if (end < 0) return refuse(p, 400, "a control character, a bare CR or a bare LF in the head");
    if (end == 0 && memchr(in, '\n', n)) return refuse(p, 431, "headers too long");
    if (end == 0) return refuse(p, 414, "the request target is too long");
    p->status = head_parse(&p->head, in, (size_t)end, g->max_body, &p->why);
    if (p->status) return;
    g->n_seen = 0;
    g->chunked = p->head.chunked;
    g->has_body = p->head.chunked || p->head.length > 0;
    if (n > (size_t)end || !g->has_body) p->head.fields[HEAD_EXPECT] = NULL; /* who does not wait needs no 100 */
    p->n_head = p->made = head_write(&p->head, out, max);
    if (p->made == 0) return refuse(p, 431, "headers too long");
    p->used += (size_t)end;
    g->at = g->has_body ? GATE_BODY : GATE_WHOLE;
    g->body = body_begin(p->head.chunked, p->head.length, g->max_body);
}

static const char *body_fault(int status) {
    if (status == 413) return "the body is too long";
    return status == 431 ? "a chunk's extension or the trailers are too long" : "malformed chunk";
}

/* Chunks are made anew, one of what is here. */
static void pass_body(Gate *g, Passed *p, const char *in, size_t n, char *out, size_t max) {
    enum { SIZE = 10, CHUNK = SIZE + 2, LAST = 5 }; /* "%08x\r\n"; data "\r\n"; "0\r\n\r\n" */
    size_t frame = g->chunked ? CHUNK + LAST : 0, taken = 0;
    if (max <= frame) return;
    Buffer data = {.data = out + (g->chunked ? SIZE : 0), .capacity = max - frame}; /* so much at most: never grown */
    int rc = body_read(&g->body, in, MIN(n, max - frame), &taken, &data);
    p->used += taken;
    if (rc < 0) return refuse(p, -rc, body_fault(-rc));
    if (rc == 1) g->at = GATE_WHOLE;
    p->made += data.n;
    if (g->chunked && data.n > 0) {
        char size[SIZE + 1];
        snprintf(size, sizeof size, "%08x\r\n", (unsigned)data.n);
        memcpy(out, size, SIZE);
        memcpy(out + SIZE + data.n, "\r\n", 2);
        out += CHUNK + data.n;
        p->made += CHUNK;
    }
    if (g->chunked && rc == 1) {
        memcpy(out, "0\r\n\r\n", LAST);
        p->made += LAST;
    }
}

Passed gate_pass(Gate *g, char *in, size_t n, char *out, size_t max) {
    Passed p = {0};
    if (g->at == GATE_HEAD) pass_head(g, &p, in, n, out, max);
    if (g->at == GATE_BODY) pass_body(g, &p, in + p.used, n - p.used, out + p.made, max - p.made);
    return p;
}
