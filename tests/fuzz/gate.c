/* The gate beside a reader that has all bytes at once (http_reader.h): the same requests, the same bodies and the same
 * verdict, in whatever pieces the bytes come. What the gate hands on is read by that reader too, which must find in it
 * what it found in the bytes themselves. */
#include "server/gate/gate.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/http_reader.h"

#include <string.h>

enum { MAX_BODY = 300, ROOM = 2 * HTTP_MAX_HEAD };

/* How many more bytes are here at a time: all, one, or as many as the seed draws. */
typedef struct Pieces {
    enum { ALL, SINGLE, DRAWN } cut;
    uint32_t seed;
} Pieces;

static size_t draw(Pieces *p, size_t low, size_t high) {
    p->seed = p->seed * 1664525 + 1013904223;
    return low + (p->seed >> 8) % (high - low + 1);
}

static size_t next_piece(Pieces *p, size_t left) {
    size_t n = p->cut == ALL ? left : p->cut == SINGLE ? 1 : draw(p, 1, 64);
    return MIN(n, left);
}

/* A head finds room for the longest; a body often has to be handed on in parts. */
static size_t next_room(Pieces *p, const Gate *g) {
    return p->cut == ALL || g->at == GATE_HEAD ? ROOM : draw(p, 18, 100);
}

typedef struct Judged {
    Buffer passed; /* to the other reader */
    int heads, status;
} Judged;

static Judged judge(const uint8_t *data, size_t n, Pieces pieces) {
    static char in[HTTP_MAX_HEAD], out[ROOM];
    Gate g = {.max_body = MAX_BODY};
    Judged j = {0};
    size_t at = 0, here = 0;
    bool keep_alive = true;
    for (;;) {
        size_t shown = MIN(here - at, sizeof in);
        if (shown) memcpy(in, data + at, shown);
        Passed p = gate_pass(&g, in, shown, out, next_room(&pieces, &g));
        CHECK(p.used <= shown && p.made <= ROOM && p.n_head <= p.made);
        at += p.used;
        buffer_append(&j.passed, out, p.made);
        j.heads += p.n_head > 0;
        j.status = p.status;
        if (p.n_head > 0) keep_alive = p.head.keep_alive;
        if (p.status || (g.at == GATE_WHOLE && !keep_alive)) return j;
        bool whole = g.at == GATE_WHOLE;
        if (whole) g.at = GATE_HEAD;
        if (whole || p.used || p.made) continue;
        if (here == n) return j;
        here += next_piece(&pieces, n - here);
    }
}

static bool same(const Buffer *a, const Buffer *b) {
    return a->n == b->n && (!a->n || !memcmp(a->data, b->data, a->n));
}

static void compare(const HttpReading *want, const uint8_t *data, size_t n, Pieces pieces, int *status) {
    Judged j = judge(data, n, pieces);
    HttpReading got = http_reading((const uint8_t *)j.passed.data, j.passed.n, MAX_BODY);
    CHECK_MSG((j.status != 0) == want->refused, "cut %d: status %d, the reader %s", pieces.cut, j.status,
              want->refused ? "refuses" : "does not");
    CHECK_MSG(*status < 0 || *status == j.status, "cut %d: status %d, whole %d", pieces.cut, j.status, *status);
    *status = j.status;
    CHECK_MSG(!got.refused, "cut %d: what is handed on is no request", pieces.cut);
    CHECK_MSG(j.heads == want->heads && got.heads == want->heads, "cut %d: %d heads, handed on %d, the reader %d",
              pieces.cut, j.heads, got.heads, want->heads);
    CHECK_MSG(same(&got.requests, &want->requests), "cut %d: handed on\n%.*s\nthe reader\n%.*s", pieces.cut,
              (int)got.requests.n, got.requests.data, (int)want->requests.n, want->requests.data);
    if (!want->refused) CHECK(same(&got.unfinished, &want->unfinished));
    http_reading_free(&got);
    buffer_free(&j.passed);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    uint32_t seed = (uint32_t)fuzz_byte(&in);
    int status = -1;
    HttpReading want = http_reading(in.at, in.left, MAX_BODY);
    compare(&want, in.at, in.left, (Pieces){.cut = ALL}, &status);
    compare(&want, in.at, in.left, (Pieces){.cut = SINGLE, .seed = seed}, &status);
    compare(&want, in.at, in.left, (Pieces){.cut = DRAWN, .seed = seed}, &status);
    http_reading_free(&want);
}

TEST(fuzz_gate) { fuzz_run("gate", look); }
