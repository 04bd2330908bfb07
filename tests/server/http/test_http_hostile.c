/* Requests that two readers could read in two ways, and plain rubbish: one answer, ours, and the connection closes. */
#include "base/memory.h"
#include "base/random.h"
#include "server/http/http.h"
#include "tests/support/http_client.h"

#include <ctype.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES(s) s, sizeof s - 1
#define SMUGGLED "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" /* 38 bytes */
#define GET "GET /v1/models HTTP/1.1\r\n"
#define POST "POST /tokenize HTTP/1.1\r\nHost: x\r\n"
#define HEADER(line) GET "Host: x\r\n" line "\r\n\r\n"

typedef struct Hostile {
    const char *bytes;
    size_t n;
    int status;
} Hostile;

static const Hostile folds[] = {
    {BYTES(POST "Content-Length:\r\n 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length: 38\r\n 0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length: 3\r\n\t8\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length\r\n : 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n , identity\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: x\r\n\tchunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "A: b\r\n Content-Length: 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "A: b\r\n \r\nContent-Length: 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "A: b\r\n\t\r\n\r\n" SMUGGLED), 400},
    {BYTES("POST /tokenize HTTP/1.1\r\n Host: x\r\nContent-Length: 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length: 38\n 0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length: 38\r 0\r\n\r\n" SMUGGLED), 400},
};

static const Hostile rubbish[] = {
    {BYTES(HEADER("A: b\0c") SMUGGLED), 400},
    {BYTES(HEADER("A\0: b") SMUGGLED), 400},
    {BYTES(HEADER("Authorization: Bearer x\0y") SMUGGLED), 400},
    {BYTES("GET /v1/models\0/x HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET\0 /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("\0" SMUGGLED), 400},
    {BYTES(HEADER("A: b\rc") SMUGGLED), 400},
    {BYTES(HEADER("A: b\r") SMUGGLED), 400},
    {BYTES(HEADER("A: b\nContent-Length: 38") SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.1\nHost: x\n\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.1\r\nHost: x\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.1\r\nHost: x\r\n\n" SMUGGLED), 400},
    {BYTES("\n" SMUGGLED), 400},
    {BYTES("\r" SMUGGLED), 400},
    {BYTES(HEADER("A : b") SMUGGLED), 400},
    {BYTES(HEADER("A\t: b") SMUGGLED), 400},
    {BYTES(HEADER("Host : x") SMUGGLED), 400},
    {BYTES(HEADER(": b") SMUGGLED), 400},
    {BYTES(HEADER(":") SMUGGLED), 400},
    {BYTES(HEADER("A") SMUGGLED), 400},
    {BYTES(HEADER("A b: c") SMUGGLED), 400},
    {BYTES(HEADER("A(b): c") SMUGGLED), 400},
    {BYTES(HEADER("\"A\": c") SMUGGLED), 400},
    {BYTES(HEADER("\x80: c") SMUGGLED), 400},
    {BYTES(HEADER("A: \x7f") SMUGGLED), 400},
    {BYTES(HEADER("Authorization: Bearer a\r\nAuthorization: Bearer b") SMUGGLED), 400},
    {BYTES(HEADER("authorization: Bearer a\r\nAUTHORIZATION: Bearer a") SMUGGLED), 400},
    {BYTES(HEADER("X-Api-Key: a\r\nX-Api-Key: b") SMUGGLED), 400},
    {BYTES(HEADER("Host: x") SMUGGLED), 400},
    {BYTES(GET "Host: a, b\r\n\r\n" SMUGGLED), 400},
    {BYTES(GET "Host: a b\r\n\r\n" SMUGGLED), 400},
    {BYTES(GET "Host: a/b\r\n\r\n" SMUGGLED), 400},
    {BYTES(GET "Host: u@h\r\n\r\n" SMUGGLED), 400},
    {BYTES(GET "\r\n" SMUGGLED), 400},
    {BYTES(POST "Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}" SMUGGLED), 417},
    {BYTES(POST "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}" SMUGGLED), 415},
    {BYTES(POST "Content-Encoding: identity, gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 415},
    {BYTES(POST "Expect: \r\nContent-Length: 2\r\n\r\n{}" SMUGGLED), 417},
    {BYTES(POST "Expect: 100-continue, x\r\nContent-Length: 2\r\n\r\n{}" SMUGGLED), 417},
    {BYTES(POST "Expect: 100-continue\r\nExpect: x\r\nContent-Length: 2\r\n\r\n{}" SMUGGLED), 400},
    {BYTES(POST "Content-Length: +5\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length: 5 5\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length: 5,5\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length: 5.0\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length: 5;\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length: \xEF\xBC\x95\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length: 5\v\r\n\r\n{}   " SMUGGLED), 400},
    {BYTES(POST "Content-Length:\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length: 99999999999999999999999999\r\n\r\n" SMUGGLED), 413},
    {BYTES(POST "Content-Length: 0\r\nContent-Length: 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Content-Length: 38\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 38\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: \r\n\r\n0\r\n\r\n" SMUGGLED), 501},
    {BYTES(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
    {BYTES(POST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
    {BYTES(POST "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
    {BYTES(POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
    {BYTES(POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 501},
    {BYTES("POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n\r\n{}\r\n0\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n100000002\r\n{}\r\n0\r\n\r\n" SMUGGLED), 413},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nA: b\r\n c\r\n\r\n" SMUGGLED), 400},
    {BYTES(POST "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\n" SMUGGLED), 400},
    {BYTES("GET  /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models  HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.1 \r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES(" GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET\t/v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1 models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/0.9\r\nHost: x\r\n\r\n" SMUGGLED), 505},
    {BYTES("GET /v1/models HTTP/11\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.10\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models http/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTPS/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
    {BYTES("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400}, /* TLS */
    {BYTES("GET(x) /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("G\xC3\x89T /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET http://u@x/v1/models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models%00 HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models%0 HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models% HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models%zz HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models#x HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1\\models HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/\xC3\xA9 HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED), 400},
    {BYTES("GET /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 38\r\n\r\n" SMUGGLED), 400},
    {BYTES(HEADER("Transfer-Encoding: chunked") "0\r\n\r\n" SMUGGLED), 400},
    {BYTES("DELETE /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 38\r\n\r\n" SMUGGLED), 405},
};

static int status_lines(const char *text) {
    int n = 0;
    for (; (text = strstr(text, "HTTP/1.")) != NULL; text++) n += text[8] == ' ' && isdigit((unsigned char)text[9]);
    return n;
}

/* One status line, ours; then the end. */
static void check_refused(const Daemon *d, const Hostile *h, const char *what, size_t i) {
    bool closed;
    int fd = raw_connect(d);
    CHECK(raw_send(fd, h->bytes, h->n));
    char *text = raw_read(fd, PATIENCE, &closed), *body = strstr(text, "\r\n\r\n");
    Answer a = {.status = strlen(text) > 12 ? atoi(text + 9) : 0, .body = body ? body + 4 : text};
    a.json = cJSON_Parse(a.body);
    const char *name = test_text("%s %zu", what, i);
    answer_check_error(&a, h->status, "", name);
    CHECK_MSG(status_lines(text) == 1, "%s: not one status line: %s", name, text);
    CHECK_MSG(strstr(text, "\r\nContent-Type: application/json\r\n"), "%s: %s", name, text);
    CHECK_MSG(strstr(text, "\r\nConnection: close\r\n") && closed, "%s: stays open: %s", name, text);
    cJSON_Delete(a.json);
    free(text);
    close(fd);
}

TEST(http_folded_headers) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(folds); i++) check_refused(&d, &folds[i], "fold", i);
    daemon_stop(&d);
}

TEST(http_malformed_requests) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(rubbish); i++) check_refused(&d, &rubbish[i], "rubbish", i);
    daemon_stop(&d);
}

/* Wherever it stands, and were it the last byte for now. */
TEST(http_control_characters) {
    static const char head[] = "GET /v1/models HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n";
    static const size_t places[] = {0, 1, 4, 8, 18, 25, 28, 32, 34, 37, 38};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int c = 0; c < 128; c++) {
        if (!iscntrl(c) || c == '\t' || c == '\r' || c == '\n') continue;
        for (size_t i = 0; i < COUNTOF(places); i++) {
            char text[sizeof head];
            memcpy(text, head, sizeof head);
            text[places[i]] = (char)c;
            Hostile h = {text, i % 2 ? sizeof head - 1 : places[i] + 1, 400};
            check_refused(&d, &h, "control character", (size_t)c);
        }
    }
    daemon_stop(&d);
}

TEST(http_legal_requests) {
    static const struct {
        const char *bytes;
        int answers;
    } legal[] = {
        {POST "Content-Length: 14\t\r\n\r\n{\"prompt\":\"x\"}" SMUGGLED, 2},
        {POST "Content-Length: \t 14 \t \r\n\r\n{\"prompt\":\"x\"}" SMUGGLED, 2},
        {POST "Content-Length:14\r\n\r\n{\"prompt\":\"x\"}" SMUGGLED, 2},
        {POST "content-length: 0014\r\n\r\n{\"prompt\":\"x\"}" SMUGGLED, 2},
        {POST "Transfer-Encoding: CHUNKED\r\n\r\n00e;a=\"b\"\r\n{\"prompt\":\"x\"}\r\n0\r\nA: b\r\n\r\n" SMUGGLED, 2},
        {"\r\n\r\n" SMUGGLED "\r\n" SMUGGLED, 2},
        {"GET /v1%2fmodels? HTTP/1.1\r\nhost:\r\n\r\n" SMUGGLED, 2},
        {HEADER("A:\r\nB: \t\r\nC: \x80\xff;,\"'\r\nAuthorization: Bearer x") SMUGGLED, 2},
        {HEADER("Content-Length: 0") SMUGGLED, 2},
        {HEADER("Connection: x, keep-alive\r\nConnection: y") SMUGGLED, 2},
        {HEADER("Connection: x , Close") SMUGGLED, 1},
        {"GET /v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" SMUGGLED, 2},
        {"GET /v1/models HTTP/1.0\r\n\r\n" SMUGGLED, 1},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(legal); i++) {
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, legal[i].bytes, strlen(legal[i].bytes)));
        shutdown(fd, SHUT_WR);
        char *text = raw_read(fd, PATIENCE, NULL);
        CHECK_MSG(text_count(text, "HTTP/1.1 200 OK\r\n") == legal[i].answers, "case %zu: %s", i, text);
        free(text);
        close(fd);
    }
    daemon_stop(&d);
}

TEST(http_expect_continue) {
    static const char head[] = POST "Expect: 100-continue\r\nContent-Length: 14\r\n\r\n";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    int fd = raw_connect(&d);
    for (int i = 0; i < 2; i++) {
        CHECK(raw_send(fd, head, sizeof head - 1));
        char *text = raw_read_until(fd, "\r\n\r\n");
        CHECK_MSG(!strcmp(text, "HTTP/1.1 100 Continue\r\n\r\n"), "%s", text);
        free(text);
        CHECK(raw_send(fd, "{\"prompt\":\"x\"}", 14) && raw_expect(fd, "\"tokens\":[88]"));
    }
    close(fd);
    daemon_stop(&d);
}

/* ---- at random, against the server alone ---- */

static atomic_int n_answered;

static bool admit(void *self, const HttpRequest *r, HttpReply *reply) {
    (void)self, (void)r, (void)reply;
    return true;
}

/* What was understood: the method, the path and the body, as one number. */
static void handle(void *self, const HttpRequest *r, HttpReply *reply) {
    uint64_t sum = 1469598103934665603u;
    (void)self;
    for (const char *p = r->method; *p; p++) sum = (sum ^ (unsigned char)*p) * 1099511628211u;
    for (const char *p = r->path; *p; p++) sum = (sum ^ (unsigned char)*p) * 1099511628211u;
    for (size_t i = 0; i < r->n_body; i++) sum = (sum ^ (unsigned char)r->body[i]) * 1099511628211u;
    reply->status = 200;
    buffer_print(&reply->body, "{\"understood\":%llu}", (unsigned long long)sum);
}

static void refuse(void *self, int status, const char *message, HttpReply *reply) {
    (void)self;
    reply->status = status;
    buffer_print(&reply->body, "{\"error\":\"%s\"}", message);
}

static void answered(void *self, int status) {
    (void)self, (void)status;
    atomic_fetch_add(&n_answered, 1);
}

static void drop_lines(char *text, const char *begin) {
    for (char *line; (line = strstr(text, begin)) != NULL;) {
        char *end = strstr(line + 2, "\r\n");
        memmove(line, end, strlen(end) + 1);
    }
}

/* All answers to the bytes, sent in `pieces` pieces, without what differs between any two. */
static char *exchange(const Daemon *d, const Buffer *bytes, int pieces, Draws *draws) {
    int fd = raw_connect(d), one = 1;
    size_t sent = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < pieces && sent < bytes->n; i++) {
        size_t n = i == pieces - 1 ? bytes->n - sent : draw_below(draws, bytes->n - sent + 1);
        if (n > 0 && !raw_send(fd, bytes->data + sent, n)) break;
        sent += n;
        if (pieces > 1) usleep(50);
    }
    shutdown(fd, SHUT_WR);
    char *text = raw_read(fd, PATIENCE, NULL);
    close(fd);
    drop_lines(text, "\r\nDate: ");
    drop_lines(text, "\r\nx-request-id: ");
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    for (char *p; (p = strstr(text, go_on)) != NULL;)
        memmove(p, p + sizeof go_on - 1, strlen(p + sizeof go_on - 1) + 1);
    return text;
}

static void mutate(Buffer *b, Draws *draws) {
    static const char *const pieces[] = {
        "\r\n",
        "\r\n\r\n",
        "\r",
        "\n",
        " ",
        "\t",
        ":",
        ": ",
        "\r\n ",
        ";",
        ",",
        "0",
        "5",
        "%",
        "/",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        "0\r\n\r\n",
        "HTTP/1.1",
        "\xff",
    };
    size_t at = draw_below(draws, b->n + 1), rest = b->n - at;
    Buffer tail = {0};
    buffer_append(&tail, b->data + at, rest);
    size_t cut = MIN(rest, draw_below(draws, 4));
    const char *piece = pieces[draw_below(draws, COUNTOF(pieces))];
    char byte = (char)draw_below(draws, 256);
    b->n = at;
    switch (draw_below(draws, 4)) {
    case 0:
        buffer_append(b, piece, strlen(piece));
        cut = 0;
        break;
    case 1:
        buffer_append(b, piece, strlen(piece));
        break;
    case 2:
        buffer_append(b, &byte, 1);
        break;
    default: /* without what is cut */
        break;
    }
    if (rest > cut) buffer_append(b, tail.data + cut, rest - cut);
    buffer_free(&tail);
}

static void assemble(Buffer *b, Draws *draws) {
    static const char *const seeds[] = {
        SMUGGLED,
        POST "Content-Length: 14\r\n\r\n{\"prompt\":\"x\"}",
        POST "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"pro\r\n9;x=y\r\nmpt\":\"x\"}\r\n0\r\nA: b\r\n\r\n",
        "HEAD /health HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
        "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        POST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    };
    b->n = 0;
    for (uint64_t n = 1 + draw_below(draws, 3); n > 0; n--) buffer_text(b, seeds[draw_below(draws, COUNTOF(seeds))]);
    for (uint64_t n = draw_below(draws, 4); n > 0; n--) mutate(b, draws);
}

/* Whatever is sent, and however it is cut into packets: the same answers, each with one status line, none after the
 * one that closes. */
TEST(http_random_requests) {
    enum { ROUNDS = 1500 };
    HttpOptions options = {
        .host = "127.0.0.1", .listen_fd = -1, .max_body = 1000, .max_connections = 16, .max_bodies = 1 << 20};
    options.head_seconds = options.body_seconds = options.idle_seconds = options.stall_seconds = 10;
    options.ping_seconds = 10;
    HttpHandler handler = {.admit = admit,
                           .handle = handle,
                           .refuse = refuse,
                           .answered = answered,
                           .no_memory = "{}",
                           .no_memory_event = "data: {}\n\n"};
    Http *http;
    Err err;
    REQUIRE(http_start(&http, &options, &handler, &err) == 0);
    Daemon d = {.port = http_port(http)};
    Draws draws = draws_open(5, DRAW_TEST, 3);
    Buffer bytes = {0};
    int understood = 0, refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        assemble(&bytes, &draws);
        int before = atomic_load(&n_answered);
        char *whole = exchange(&d, &bytes, 1, &draws);
        int answers = atomic_load(&n_answered) - before;
        char *cut = exchange(&d, &bytes, 2 + (int)draw_below(&draws, 6), &draws);
        const char *last = strstr(whole, "\r\nConnection: close\r\n");
        CHECK_MSG(!strcmp(whole, cut), "round %d: \"%.*s\" is answered\n%s\nand in pieces\n%s", round, (int)bytes.n,
                  bytes.data, whole, cut);
        CHECK_MSG(status_lines(whole) == answers, "round %d: %d answers: %s", round, answers, whole);
        CHECK_MSG(!last || status_lines(last) == 0, "round %d: goes on after the end: %s", round, whole);
        understood += text_count(whole, "{\"understood\":");
        refused += text_count(whole, "{\"error\":");
        free(whole);
        free(cut);
    }
    CHECK_MSG(understood > ROUNDS / 4 && refused > ROUNDS / 4, "%d understood, %d refused", understood, refused);
    buffer_free(&bytes);
    http_stop(http);
    http_free(http);
}
