/* The HTTP layer of the real daemon, through bare sockets: framing, sizes, deadlines. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SMUGGLED "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define BODY "{\"prompt\":\"x\"}"                               /* 14 bytes */
#define PATIENT "--header-seconds 100000 --idle-seconds 100000" /* it closes nothing for its age */

typedef struct Framing {
    const char *name, *bytes;
    const char *status; /* "400", or several: "400 501" */
} Framing;

static const Framing framing[] = {
    {"TE and CL", POST CHUNKED "Content-Length: 5\r\n\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"CL and TE", POST "Content-Length: 5\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"two CLs", POST "Content-Length: 14\r\nContent-Length: 0\r\n\r\n" BODY SMUGGLED, "400"},
    {"the same CL twice", POST "Content-Length: 14\r\nContent-Length: 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL list", POST "Content-Length: 14, 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL with plus", POST "Content-Length: +14\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL negative", POST "Content-Length: -1\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL hexadecimal", POST "Content-Length: 0xE\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL empty", POST "Content-Length: \r\n\r\n" BODY SMUGGLED, "400"},
    {"CL with space inside", POST "Content-Length: 1 4\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL beyond 64 bits", POST "Content-Length: 18446744073709551630\r\n\r\n" BODY SMUGGLED, "400 413"},
    {"CL name with space", POST "Content-Length : 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"TE name with space", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"TE xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE identity", POST "Transfer-Encoding: identity\r\nContent-Length: 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"TE twice", POST CHUNKED CHUNKED "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"TE with a quote", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE with vertical tab", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE in HTTP/1.0",
     "POST /tokenize HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED,
     "400"},
    {"GET with a body", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 41\r\n\r\n" SMUGGLED, "400"},
    {"GET chunked", "GET /health HTTP/1.1\r\nHost: x\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"two Hosts", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" SMUGGLED, "400"},
    {"no Host", "GET /health HTTP/1.1\r\n\r\n" SMUGGLED, "400"},
    {"HTTP/2.0", "GET /health HTTP/2.0\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"lower-case version", "GET /health http/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"no version", "GET /health\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"%00 in the path", "GET /health%00/x HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"control character in the path", "GET /hea\x01lth HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"absolute form of nobody", "GET http:///health HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"odd bytes in the method", "G\x01T /health HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"control character in a header", "GET /health HTTP/1.1\r\nHost: x\r\nA: b\x01\r\n\r\n" SMUGGLED, "400"},
    {"header without a colon", "GET /health HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n" SMUGGLED, "400"},
    {"chunk size with junk", POST CHUNKED "\r\nzz\r\n" BODY "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"chunk size beyond 64 bits", POST CHUNKED "\r\n1000000000000000E\r\n" BODY "\r\n0\r\n\r\n" SMUGGLED, "400 413"},
    {"negative chunk size", POST CHUNKED "\r\n-1\r\n" BODY "\r\n0\r\n\r\n" SMUGGLED, "400"},
};

/* Refused, closed, and nothing behind it was taken for a request. */
TEST(http_framing) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, PATIENT));
    for (size_t i = 0; i < COUNTOF(framing); i++) {
        const Framing *f = &framing[i];
        bool closed;
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, f->bytes, strlen(f->bytes)));
        char *reply = raw_read(fd, PATIENCE, &closed), status[4] = "";
        if (strlen(reply) > 12) memcpy(status, reply + 9, 3);
        CHECK_MSG(*status && strstr(f->status, status), "%s: \"%.100s\"", f->name, reply);
        CHECK_MSG(closed, "%s: the connection stays open", f->name);
        CHECK_MSG(!strstr(reply, "HTTP/1.1 2"), "%s: the rest was answered: %s", f->name, reply);
        free(reply);
        close(fd);
    }
    daemon_stop(&d);
}

/* Behind each comes a request that closes the connection, answered where it is still open. */
TEST(http_ordinary_framing) {
    static const char last[] = "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static const Framing fine[] = {
        {"keep-alive and pipelining", SMUGGLED SMUGGLED SMUGGLED, "4"},
        {"a chunked body", POST CHUNKED "\r\n5\r\n{\"pro\r\n9;x=y\r\nmpt\":\"x\"}\r\n0\r\n\r\n" SMUGGLED, "3"},
        {"a body in one piece", POST "Content-Length: 14\r\n\r\n" BODY SMUGGLED, "3"},
        {"an error keeps the connection", "GET /none HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "3"},
        {"an error in the body keeps it too", POST "Content-Length: 2\r\n\r\n{}" SMUGGLED, "3"},
        {"Connection: close", "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" SMUGGLED, "1"},
        {"HTTP/1.2", "GET /health/live HTTP/1.2\r\nHost: x\r\n\r\n" SMUGGLED, "3"},
        {"absolute form", "GET http://x/health/live HTTP/1.1\r\nHost: y\r\n\r\n" SMUGGLED, "3"},
        {"HTTP/1.0", "GET /health/live HTTP/1.0\r\n\r\n" SMUGGLED, "1"},
        {"a refused body closes", "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 41\r\n\r\n" SMUGGLED, "1"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(fine); i++) {
        char bytes[512];
        int fd = raw_connect(&d), n = snprintf(bytes, sizeof bytes, "%s%s", fine[i].bytes, last);
        CHECK(raw_send(fd, bytes, (size_t)n));
        char *reply = raw_read(fd, PATIENCE, NULL);
        CHECK_MSG(text_count(reply, "HTTP/1.1 ") == atoi(fine[i].status), "%s: %s", fine[i].name, reply);
        free(reply);
        close(fd);
    }
    daemon_stop(&d);
}

TEST(http_sizes) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-body 2000"));
    static const struct {
        int uri, headers, header_bytes, status;
    } heads[] = {
        {2048, 0, 0, 404},   {2049, 0, 0, 414},   {10, 60, 100, 404}, {10, 64, 10, 431},   {10, 63, 10, 404},
        {10, 10, 1500, 404}, {10, 11, 1500, 431}, {40000, 0, 0, 414}, {10, 40, 1500, 431},
    };
    for (size_t i = 0; i < COUNTOF(heads); i++) {
        char *text = xcalloc(1, 200000), *p = text;
        p += sprintf(p, "GET /");
        memset(p, 'a', (size_t)heads[i].uri - 1);
        p += heads[i].uri - 1;
        p += sprintf(p, " HTTP/1.1\r\nHost: x\r\n");
        for (int h = 0; h < heads[i].headers; h++) {
            p += sprintf(p, "H%d: ", h);
            memset(p, 'b', (size_t)heads[i].header_bytes);
            p += heads[i].header_bytes;
            p += sprintf(p, "\r\n");
        }
        p += sprintf(p, "\r\n");
        int fd = raw_connect(&d);
        raw_send(fd, text, (size_t)(p - text));
        char *reply = raw_read_until(fd, "\r\n\r\n");
        CHECK_MSG(strlen(reply) > 12 && atoi(reply + 9) == heads[i].status, "case %zu: %.60s", i, reply);
        free(reply);
        free(text);
        close(fd);
    }
    daemon_stop(&d);
}

/* A chunked body is counted as it comes: over the limit it is answered, far over it is cut. */
TEST(http_chunked_body_limit) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-body 2000"));
    static const struct {
        int chunks;
        const char *status;
    } cases[] = {{19, "200"}, {20, "200"}, {21, "413"}, {100, "413"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *text = xcalloc(1, 20000), *p = text + sprintf(text, POST CHUNKED "\r\n");
        for (int c = 0; c < cases[i].chunks; c++) p += sprintf(p, "64\r\n%-100s\r\n", c ? "" : BODY);
        p += sprintf(p, "0\r\n\r\n");
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, text, (size_t)(p - text)));
        char *reply = raw_read_until(fd, "\r\n\r\n");
        CHECK_MSG(!strncmp(reply, "HTTP/1.1 ", 9) && !strncmp(reply + 9, cases[i].status, 3), "%d chunks: %s",
                  cases[i].chunks, reply);
        free(reply);
        free(text);
        close(fd);
    }
    int fd = raw_connect(&d);
    bool sent = raw_send(fd, POST CHUNKED "\r\n", strlen(POST CHUNKED) + 2);
    static char block[4096 + 16];
    int n = sprintf(block, "1000\r\n%-4096s\r\n", "");
    for (int i = 0; i < 4096 && sent; i++) sent = raw_send(fd, block, (size_t)n);
    CHECK_MSG(!sent, "16 MiB were taken");
    close(fd);
    daemon_stop(&d);
}

/* Connects and sends `byte` every 50 ms until the server closes; the seconds that took, or `patience`. */
static double drip(const Daemon *d, const char *start, const char *byte, double patience) {
    double t0 = now_seconds();
    int fd = raw_connect(d);
    bool closed = false;
    CHECK(raw_send(fd, start, strlen(start)));
    while (!closed && now_seconds() - t0 < patience) {
        if (*byte && !raw_send(fd, byte, strlen(byte))) break;
        free(raw_read(fd, 0.05, &closed));
    }
    close(fd);
    return now_seconds() - t0;
}

/* Deadlines are absolute: a byte now and then does not extend them. */
TEST(http_slow_clients) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--header-seconds 0.6 --body-seconds 0.9 --idle-seconds 0.4"));
    static const struct {
        const char *name, *start, *byte;
        double least, most;
    } cases[] = {
        {"nothing", "", "", 0.6, 1.2},
        {"a slow request line", "G", "E", 0.6, 1.2},
        {"slow headers", "GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n", 0.6, 1.2},
        {"a slow body", POST "Content-Length: 2000\r\n\r\n", " ", 0.9, 1.5},
        {"slow chunks", POST CHUNKED "\r\n", "1\r\n \r\n", 0.9, 1.5},
        {"a silent body", POST "Content-Length: 2000\r\n\r\n", "", 0.9, 1.5},
        {"idle after an answer", SMUGGLED, "", 0.4, 1.0},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        double t = INFINITY;
        for (int try = 0; try < TRIES && t > cases[i].most; try++)
            t = fmin(t, drip(&d, cases[i].start, cases[i].byte, 3));
        CHECK_MSG(t >= cases[i].least - 0.05 && t <= cases[i].most, "%s: closed after %.2f s", cases[i].name, t);
    }
    daemon_stop(&d);
}
