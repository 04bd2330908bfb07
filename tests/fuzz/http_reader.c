#include "tests/fuzz/http_reader.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_HEAD = 16384, MOST_LINES = 64, MOST_TARGET = 2048, MOST_FRAMING = 4096, FIELDS = 13 };
enum { HOST, LENGTH, ENCODING, CODING, EXPECT, REQUEST_ID = 11, TRACE_PARENT }; /* of names */
static const char *const names[FIELDS] = {"Host",
                                          "Content-Length",
                                          "Transfer-Encoding",
                                          "Content-Encoding",
                                          "Expect",
                                          "Authorization",
                                          "X-Api-Key",
                                          "Sec-Fetch-Site",
                                          "Origin",
                                          "Access-Control-Request-Method",
                                          "Access-Control-Request-Headers",
                                          "X-Request-Id",
                                          "Traceparent"};

typedef enum Found { FOUND, MORE, BAD } Found;

typedef struct Cursor {
    const uint8_t *data;
    size_t n, at, max_body;
    size_t framing; /* bytes since a chunk's data */
} Cursor;

typedef struct Request {
    char *method, *target, *values[FIELDS];
    char *host; /* of the target */
    bool http11, close, keep_alive;
    size_t length;
} Request;

static bool in_set(int c, const char *set) { return c != 0 && strchr(set, c) != NULL; }
static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_alpha(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_token_char(int c) { return is_digit(c) || is_alpha(c) || in_set(c, "!#$%&'*+-.^_`|~"); }
static bool is_text_char(int c) { return c == '\t' || (c >= 32 && c != 127); }

static int hex_value(int c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_token(const char *s) {
    if (!*s) return false;
    for (; *s; s++)
        if (!is_token_char((unsigned char)*s)) return false;
    return true;
}

/* ---- the head ---- */

/* A line of the head as a string of its own; what may not stand in one is bad as soon as it is there. */
static Found read_line(Cursor *c, size_t head, char **line) {
    for (size_t i = c->at; i < c->n; i++) {
        if (i - head >= MOST_HEAD) return BAD;
        if (c->data[i] == '\r' && i + 1 == c->n) return MORE;
        if (c->data[i] == '\r') {
            if (c->data[i + 1] != '\n' || i + 1 - head >= MOST_HEAD) return BAD;
            *line = strndup((const char *)c->data + c->at, i - c->at);
            c->at = i + 2;
            return FOUND;
        }
        if (!is_text_char(c->data[i])) return BAD;
    }
    return c->n - head >= MOST_HEAD ? BAD : MORE;
}

static bool is_host(const char *s) {
    for (; *s; s++)
        if (in_set(*s, " \t,/\\@?#\"<>{}|^`")) return false;
    return true;
}

static bool is_path(const char *s) {
    if (*s != '/') return false;
    for (; *s; s++)
        if (*s == '%' && (hex_value(s[1]) < 0 || hex_value(s[2]) < 0 || (s[1] == '0' && s[2] == '0'))) return false;
    return true;
}

static bool read_target(Request *r, const char *text) {
    if (strlen(text) > MOST_TARGET) return false;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p <= 32 || (unsigned char)*p >= 127 || *p == '\\' || *p == '#') return false;
    size_t n = strcspn(text, "?"), scheme = 0;
    if (!strncasecmp(text, "http://", 7)) scheme = 7;
    if (!strncasecmp(text, "https://", 8)) scheme = 8;
    if (scheme > n) return false; /* a '?' in the scheme */
    if (scheme) {
        size_t host = strcspn(text + scheme, "/?");
        r->host = strndup(text + scheme, host);
        if (!host || !is_host(r->host)) return false;
        text += scheme + host;
        n -= scheme + host;
    }
    r->target = n == 0 && scheme ? strdup("/") : strndup(text, n);
    return is_path(r->target);
}

static bool read_request_line(Request *r, char *line) {
    size_t method = strcspn(line, " ");
    if (!line[method]) return false;
    size_t target = strcspn(line + method + 1, " ");
    const char *version = line + method + 1 + target;
    if (strncmp(version, " HTTP/1.", 8) || !is_digit(version[8]) || version[9]) return false;
    r->http11 = version[8] != '0';
    line[method] = line[method + 1 + target] = 0;
    r->method = strdup(line);
    return is_token(line) && read_target(r, line + method + 1);
}

static void read_options(Request *r, char *value) {
    char *rest;
    for (char *option = strtok_r(value, ", \t", &rest); option; option = strtok_r(NULL, ", \t", &rest)) {
        r->close |= !strcasecmp(option, "close");
        r->keep_alive |= !strcasecmp(option, "keep-alive");
    }
}

static bool read_field(Request *r, char *line) {
    char *value = strchr(line, ':');
    if (!value) return false;
    *value++ = 0;
    if (!is_token(line)) return false;
    while (in_set(*value, " \t")) value++;
    for (size_t n = strlen(value); n > 0 && in_set(value[n - 1], " \t"); n--) value[n - 1] = 0;
    for (int i = 0; i < FIELDS; i++) {
        if (strcasecmp(line, names[i])) continue;
        if (r->values[i]) return false;
        r->values[i] = strdup(value);
    }
    if (!strcasecmp(line, "Connection")) read_options(r, value);
    return true;
}

static Found read_lines(Cursor *c, Request *r) {
    size_t head = c->at;
    char *line;
    for (int i = 0;; i++) {
        Found found = read_line(c, head, &line);
        if (found != FOUND) return found;
        bool last = i > 0 && !*line;
        bool good = last || (i <= MOST_LINES && (i ? read_field(r, line) : read_request_line(r, line)));
        free(line);
        if (last) return FOUND;
        if (!good) r->length = SIZE_MAX; /* bad, once the head is whole: a reader sees its end first */
    }
}

static bool is_number(const char *s, size_t max, size_t *value) {
    *value = 0;
    for (const char *p = s; *p; p++) {
        if (!is_digit(*p)) return false;
        *value = *value * 10 + (size_t)(*p - '0');
        if (*value > max) return false;
    }
    return *s != 0;
}

static bool agrees(Request *r, size_t max_body) {
    char **v = r->values;
    bool chunked = v[ENCODING] != NULL;
    if (r->length == SIZE_MAX) return false;
    if (r->http11 && !v[HOST]) return false;
    if (v[HOST] && !is_host(v[HOST])) return false;
    if (chunked && (v[LENGTH] || !r->http11 || strcasecmp(v[ENCODING], "chunked"))) return false;
    if (v[EXPECT] && strcasecmp(v[EXPECT], "100-continue")) return false;
    if (v[LENGTH] && !is_number(v[LENGTH], max_body, &r->length)) return false;
    bool body = chunked || r->length > 0;
    if (body && v[CODING] && strcasecmp(v[CODING], "identity")) return false;
    bool bodiless = !strcmp(r->method, "GET") || !strcmp(r->method, "HEAD");
    return !(bodiless && body);
}

/* ---- the body ---- */

static Found next_byte(Cursor *c, int *byte) {
    if (c->at == c->n) return MORE;
    *byte = c->data[c->at++];
    return ++c->framing > MOST_FRAMING ? BAD : FOUND;
}

/* The rest of a line of text, its CRLF too. */
static Found skip_text(Cursor *c) {
    int byte;
    for (;;) {
        Found found = next_byte(c, &byte);
        if (found != FOUND) return found;
        if (byte == '\r') break;
        if (!is_text_char(byte)) return BAD;
    }
    Found found = next_byte(c, &byte);
    return found == FOUND && byte != '\n' ? BAD : found;
}

static Found read_size(Cursor *c, size_t taken, size_t *size) {
    int byte;
    *size = 0;
    for (int digits = 0;; digits++) {
        Found found = next_byte(c, &byte);
        if (found != FOUND) return found;
        if (hex_value(byte) < 0) {
            if (digits == 0) return BAD;
            if (byte == ';') return skip_text(c);
            if (byte != '\r') return BAD;
            found = next_byte(c, &byte);
            return found == FOUND && byte != '\n' ? BAD : found;
        }
        *size = *size * 16 + (size_t)hex_value(byte);
        if (taken + *size > c->max_body) return BAD;
    }
}

static Found read_trailers(Cursor *c) {
    int byte;
    for (;;) {
        Found found = next_byte(c, &byte);
        if (found != FOUND) return found;
        if (byte == '\r') break;
        if (byte == ':') return BAD; /* a name has one character at least */
        for (; byte != ':'; found = next_byte(c, &byte)) {
            if (found != FOUND) return found;
            if (!is_token_char(byte)) return BAD;
        }
        if (found != FOUND) return found;
        found = skip_text(c);
        if (found != FOUND) return found;
    }
    Found found = next_byte(c, &byte);
    return found == FOUND && byte != '\n' ? BAD : found;
}

static Found read_data(Cursor *c, size_t size, Buffer *body) {
    size_t here = MIN(size, c->n - c->at);
    buffer_append(body, c->data + c->at, here);
    c->at += here;
    return here == size ? FOUND : MORE;
}

static Found read_chunks(Cursor *c, Buffer *body) {
    int cr, lf;
    size_t size;
    for (c->framing = 0;; c->framing = 0) {
        Found found = read_size(c, body->n, &size);
        if (found != FOUND) return found;
        if (size == 0) return read_trailers(c);
        found = read_data(c, size, body);
        if (found == FOUND) found = next_byte(c, &cr);
        if (found != FOUND) return found;
        if (cr != '\r') return BAD;
        found = next_byte(c, &lf);
        if (found != FOUND) return found;
        if (lf != '\n') return BAD;
    }
}

/* ---- all of it ---- */

/* W3C Trace Context, 3.2.2. */
static bool is_trace_parent(const char *s) {
    static const char shape[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    for (size_t i = 0; shape[i]; i++)
        if (shape[i] == 'x' ? !in_set(s[i], "0123456789abcdef") : s[i] != '-') return false;
    bool zero = !strncmp(s + 3, "00000000000000000000000000000000", 32) || !strncmp(s + 36, "0000000000000000", 16);
    bool first = !strncmp(s, "00", 2), last = s[sizeof shape - 1] == 0;
    return !zero && strncmp(s, "ff", 2) != 0 && (last || (!first && s[sizeof shape - 1] == '-'));
}

/* Not Expect, which may be dropped, nor how the body was framed. */
static void write_down(Buffer *out, const Request *r, const Buffer *body) {
    bool keep = r->http11 ? !r->close : r->keep_alive && !r->close;
    buffer_print(out, "%s %s 1.%d keep %d body %zu\n", r->method, r->target, r->http11, keep, body->n);
    for (int i = 0; i < FIELDS; i++) {
        const char *value = i == HOST && r->host ? r->host : r->values[i];
        size_t n = value ? strlen(value) : 0, visible = 0;
        while (visible < n && value[visible] > 32 && value[visible] < 127) visible++;
        bool dropped = (i == REQUEST_ID && (n == 0 || n > 128 || visible < n)) ||
                       (i == TRACE_PARENT && value && !is_trace_parent(value));
        if (value && i != EXPECT && i != LENGTH && i != ENCODING && !dropped)
            buffer_print(out, "%s: %s\n", names[i], value);
    }
    buffer_append(out, body->data, body->n);
}

static void free_request(Request *r) {
    free(r->method);
    free(r->target);
    free(r->host);
    for (int i = 0; i < FIELDS; i++) free(r->values[i]);
}

/* Whether another request may follow. */
static bool read_request(Cursor *c, HttpReading *reading) {
    Request r = {0};
    Buffer body = {0};
    while (c->n - c->at >= 2 && !memcmp(c->data + c->at, "\r\n", 2)) c->at += 2;
    Found found = read_lines(c, &r);
    if (found == FOUND && !agrees(&r, c->max_body)) found = BAD;
    if (found == FOUND) {
        reading->heads++;
        found = r.values[ENCODING] ? read_chunks(c, &body) : read_data(c, r.length, &body);
        if (found == MORE) write_down(&reading->unfinished, &r, &body);
    }
    if (found == FOUND) write_down(&reading->requests, &r, &body);
    reading->refused = found == BAD;
    bool keep = r.http11 ? !r.close : r.keep_alive && !r.close;
    free_request(&r);
    buffer_free(&body);
    return found == FOUND && keep;
}

HttpReading http_reading(const uint8_t *data, size_t n, size_t max_body) {
    Cursor c = {.data = data, .n = n, .max_body = max_body};
    HttpReading r = {0};
    while (read_request(&c, &r)) {}
    return r;
}

void http_reading_free(HttpReading *r) {
    buffer_free(&r->requests);
    buffer_free(&r->unfinished);
}
