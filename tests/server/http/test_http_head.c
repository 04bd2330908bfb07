/* head.c and body.c alone: the verdict does not depend on how the bytes come in. */
#include "base/memory.h"
#include "server/gate/body.h"
#include "server/gate/head.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BODY = 1000 };

/* What head_end says when `first` bytes come first and the others after them. */
static ssize_t end_of(const char *text, size_t n, size_t first) {
    size_t seen = 0;
    ssize_t end = head_end(text, first, &seen);
    return end ? end : head_end(text, n, &seen);
}

TEST(head_end_in_any_two_pieces) {
    static const struct {
        const char *text;
        size_t n;
        ssize_t end;
    } cases[] = {
#define TEXT(s) s, sizeof s - 1
        {TEXT("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET "), 27},
        {TEXT("GET / HTTP/1.1\r\n\r\n\r\n"), 18},
        {TEXT("GET / HTTP/1.1\r\nHost: x\r\n"), 0},
        {TEXT("GET / HTTP/1.1\r\nHost: x\r\n\r"), 0},
        {TEXT("GET / HTTP/1.1\nHost: x\n\n"), -1},
        {TEXT("GET / HTTP/1.1\r\nHost: x\r\n\n"), -1},
        {TEXT("GET / HTTP/1.1\r\nHost: x\n\r\n"), -1},
        {TEXT("GET / HTTP/1.1\r\nHost: \rx\r\n\r\n"), -1},
        {TEXT("GET / HTTP/1.1\r\nHost: x\r\r\n\r\n"), -1},
        {TEXT("GET / HTTP/1.1\r\nHost: \0x\r\n\r\n"), -1},
        {TEXT("\nGET / HTTP/1.1\r\n\r\n"), -1},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++)
        for (size_t first = 0; first <= cases[i].n; first++) {
            ssize_t end = end_of(cases[i].text, cases[i].n, first);
            CHECK_MSG(end == cases[i].end, "case %zu cut at %zu: %zd, not %zd", i, first, end, cases[i].end);
        }
}

static int parse(Head *head, const char *text, char **copy) {
    const char *why = "";
    *copy = xstrdup(text);
    return head_parse(head, *copy, strlen(text), MAX_BODY, &why);
}

TEST(head_fields) {
    Head h;
    char *text;
    CHECK(parse(&h,
                "POST /a%20b/%C3%A9? HTTP/1.1\r\nhOST: x\r\nAuthorization:Bearer k\t \r\nConnection: a, CLOSE\r\n"
                "Content-Length: 02\t\r\nX-Api-Key: \r\nExpect: 100-Continue\r\n\r\n",
                &text) == 0);
    CHECK(!strcmp(h.method, "POST") && !strcmp(h.target, "/a%20b/%C3%A9") && h.http11 && !h.keep_alive);
    CHECK(!strcmp(h.fields[HEAD_AUTHORIZATION], "Bearer k") && !strcmp(h.fields[HEAD_API_KEY], ""));
    CHECK(h.fields[HEAD_EXPECT] && !h.fields[HEAD_FETCH_SITE] && !h.chunked && h.length == 2);
    free(text);
    CHECK(parse(&h, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n", &text) == 0);
    CHECK(h.chunked && h.keep_alive && !h.fields[HEAD_EXPECT]);
    free(text);
    CHECK(parse(&h, "GET / HTTP/1.0\r\n\r\n", &text) == 0 && !h.http11 && !h.keep_alive);
    free(text);
    CHECK(parse(&h, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &text) == 0 && h.keep_alive);
    free(text);
    CHECK(parse(&h, "GET / HTTP/1.7\r\nHost: x\r\n\r\n", &text) == 0 && h.http11);
    free(text);
}

TEST(head_targets) {
    static const struct {
        const char *target, *path, *host; /* path NULL: refused */
    } cases[] = {
        {"/a/b?c=d", "/a/b", "x"},
        {"http://example.org:80/a%2fb?c", "/a%2fb", "example.org:80"},
        {"HTTPS://[::1]:8080?c", "/", "[::1]:8080"},
        {"http://example.org", "/", "example.org"},
        {"http:///a", NULL, NULL},
        {"http://u@h/a", NULL, NULL},
        {"http://h/a%0", NULL, NULL},
        {"ftp://h/a", NULL, NULL},
        {"h:80", NULL, NULL},
        {"*", NULL, NULL},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *text;
        Head h;
        int status = parse(&h, test_text("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", cases[i].target), &text);
        CHECK_MSG(status == (cases[i].path ? 0 : 400), "%s: %d", cases[i].target, status);
        if (status == 0)
            CHECK_MSG(!strcmp(h.target, cases[i].path) && !strcmp(h.fields[HEAD_HOST], cases[i].host), "%s: %s of %s",
                      cases[i].target, h.target, h.fields[HEAD_HOST]);
        free(text);
    }
}

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

/* W3C Trace Context: what is none is as good as absent. */
TEST(head_traceparent_of_each_form) {
    static const char *const good[] = {"00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-00",
                                       "00-00000000000000000000000000000001-0000000000000001-ff",
                                       "cc-" TRACE "-" PARENT "-01", "cc-" TRACE "-" PARENT "-01-what comes later"};
    static const char *const bad[] = {"",
                                      "00",
                                      "00-" TRACE "-" PARENT,
                                      "00-" TRACE "-" PARENT "-1",
                                      "00-" TRACE "-" PARENT "-01-later",
                                      "00-" TRACE "-" PARENT "-011",
                                      "ff-" TRACE "-" PARENT "-01",
                                      "cc-" TRACE "-" PARENT "-01.x",
                                      "00-00000000000000000000000000000000-" PARENT "-01",
                                      "00-" TRACE "-0000000000000000-01",
                                      "00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
                                      "00_" TRACE "-" PARENT "-01",
                                      "0x-" TRACE "-" PARENT "-01",
                                      "00-" TRACE "0-" PARENT "-01",
                                      "00-" TRACE "-" PARENT "-0g"};
    for (size_t i = 0; i < COUNTOF(good) + COUNTOF(bad); i++) {
        const char *value = i < COUNTOF(good) ? good[i] : bad[i - COUNTOF(good)];
        char *text;
        Head h;
        CHECK(parse(&h, test_text("GET / HTTP/1.1\r\nHost: x\r\ntraceparent: %s\r\n\r\n", value), &text) == 0);
        const char *kept = h.fields[HEAD_TRACE_PARENT];
        CHECK_MSG(i < COUNTOF(good) ? kept && !strcmp(kept, value) : !kept, "\"%s\": %s", value,
                  kept ? kept : "dropped");
        free(text);
    }
}

/* What another reader gets: one line for each field that is read here, trimmed, and nothing else. */
TEST(head_written_anew) {
    static const char wanted[] = "POST /a%20b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nOrigin: http://y\r\n"
                                 "Connection: keep-alive\r\n\r\n";
    Head h;
    char *text, out[256];
    CHECK(parse(&h,
                "POST /a%20b?c=d&e HTTP/1.9\r\nCookie: a=b; c=d\r\nX-Request-Id: not one\r\nOrigin:http://y \r\n"
                "content-length: \t 5 \t \r\nHOST:x\r\nconnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
                &text) == 0);
    size_t n = head_write(&h, out, sizeof out);
    CHECK_MSG(n == strlen(wanted) && !memcmp(out, wanted, n), "%.*s", (int)n, out);
    for (size_t max = 0; max < n; max++) CHECK(head_write(&h, out, max) == 0);
    free(text);
}

/* ---- bodies ---- */

typedef struct Chunked {
    const char *text;
    int rc; /* 1: complete, 0: not yet, else minus the status */
    const char *data;
    size_t rest; /* bytes behind the body */
} Chunked;

static const Chunked chunked[] = {
    {"5\r\nhello\r\n0\r\n\r\nGET", 1, "hello", 3},
    {"5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n", 1, "hello0123456789", 0},
    {"5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", 1, "hello", 0},
    {"0\r\nA: b\r\nC:\r\n\r\nX", 1, "", 1},
    {"5\r\nhel", 0, "hel", 0},
    {"0\r\n\r", 0, "", 0},
    {"5\nhello\r\n0\r\n\r\n", -400, "", 0},
    {"5\r\nhello\n0\r\n\r\n", -400, "hello", 0},
    {"5\r\nhello!\r\n0\r\n\r\n", -400, "hello", 0},
    {"5\r\nhello\r\n0\n\n", -400, "hello", 0},
    {"5\rhello\r\n", -400, "", 0},
    {"5 \r\nhello\r\n", -400, "", 0},
    {" 5\r\nhello\r\n", -400, "", 0},
    {"+5\r\nhello\r\n", -400, "", 0},
    {"-5\r\nhello\r\n", -400, "", 0},
    {"0x5\r\nhello\r\n", -400, "", 0},
    {"5g\r\nhello\r\n", -400, "", 0},
    {"\r\nhello\r\n", -400, "", 0},
    {";a\r\n\r\n", -400, "", 0},
    {"5;\x01\r\nhello\r\n", -400, "", 0},
    {"5;a\nhello\r\n", -400, "", 0},
    {"3E9\r\n", -413, "", 0},
    {"3E8\r\n", 0, "", 0},
    {"10000000000000005\r\nhello\r\n", -413, "", 0},
    {"FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", -413, "", 0},
    {"0\r\nA: b\r\n c\r\n\r\n", -400, "", 0},
    {"0\r\nA : b\r\n\r\n", -400, "", 0},
    {"0\r\n: b\r\n\r\n", -400, "", 0},
    {"0\r\nA\r\n\r\n", -400, "", 0},
    {"0\r\nA: b\n\r\n", -400, "", 0},
    {"0\r\n\n", -400, "", 0},
};

static void check_body(const Chunked *t, size_t first) {
    size_t n = strlen(t->text), used, more = 0;
    Buffer data = {0};
    BodyReader r = body_begin(true, 0, MAX_BODY);
    int rc = body_read(&r, t->text, first, &used, &data);
    if (rc == 0) rc = body_read(&r, t->text + used, n - used, &more, &data);
    CHECK_MSG(rc == t->rc, "\"%s\" cut at %zu: %d, not %d", t->text, first, rc, t->rc);
    CHECK_MSG(data.n == strlen(t->data) && (data.n == 0 || !memcmp(data.data, t->data, data.n)), "\"%s\" cut at %zu",
              t->text, first);
    CHECK_MSG(rc != 1 || n - used - more == t->rest, "\"%s\" cut at %zu", t->text, first);
    buffer_free(&data);
}

TEST(body_chunks_in_any_two_pieces) {
    for (size_t i = 0; i < COUNTOF(chunked); i++)
        for (size_t first = 0; first <= strlen(chunked[i].text); first++) check_body(&chunked[i], first);
}

/* What is no data has a bound too. */
TEST(body_endless_lines) {
    static const char *const starts[] = {"1;", "0\r\nA: ", "0\r\n", "0"};
    static const char *const repeated[] = {"x", "x", "A: b\r\n", "0"};
    for (size_t i = 0; i < COUNTOF(starts); i++) {
        size_t used;
        Buffer data = {0};
        BodyReader r = body_begin(true, 0, MAX_BODY);
        int rc = body_read(&r, starts[i], strlen(starts[i]), &used, &data);
        for (int k = 0; k < 100000 && rc == 0; k++) rc = body_read(&r, repeated[i], strlen(repeated[i]), &used, &data);
        CHECK_MSG(rc == -431, "\"%s\": %d", starts[i], rc);
        buffer_free(&data);
    }
}

/* The bound is that of a line: many small chunks may have more framing than that. */
TEST(body_of_many_small_chunks) {
    enum { CHUNKS = 2000 };
    size_t used;
    Buffer text = {0}, data = {0};
    BodyReader r = body_begin(true, 0, CHUNKS);
    for (int i = 0; i < CHUNKS; i++) buffer_text(&text, "1;of=one\r\nx\r\n");
    buffer_text(&text, "0\r\n\r\n");
    CHECK(body_read(&r, text.data, text.n, &used, &data) == 1 && used == text.n && data.n == CHUNKS);
    buffer_free(&text);
    buffer_free(&data);
}

TEST(body_of_known_length) {
    Buffer data = {0};
    size_t used;
    BodyReader r = body_begin(false, 5, MAX_BODY);
    CHECK(body_read(&r, "he", 2, &used, &data) == 0 && used == 2);
    CHECK(body_read(&r, "lloGET", 6, &used, &data) == 1 && used == 3);
    CHECK(data.n == 5 && !memcmp(data.data, "hello", 5));
    buffer_free(&data);
    r = body_begin(false, 0, MAX_BODY);
    CHECK(body_read(&r, "GET", 3, &used, &data) == 1 && used == 0 && data.n == 0);
}
