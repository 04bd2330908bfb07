#include "server/gate/head.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

bool head_is_token(unsigned char c) {
    unsigned char letter = c | 32;
    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool head_is_text(unsigned char c) { return (c >= ' ' || c == '\t') && c != 0x7f; }

ssize_t head_end(const char *text, size_t n, size_t *seen) {
    for (size_t i = *seen; i < n; i++) {
        if (text[i] == '\r') {
            *seen = i; /* once more with the byte behind it */
            if (i + 1 == n) return 0;
            if (text[i + 1] != '\n') return -1;
        } else if (text[i] == '\n') {
            if (i == 0 || text[i - 1] != '\r') return -1;
            if (i >= 2 && text[i - 2] == '\n') return (ssize_t)i + 1;
        } else if (!head_is_text((unsigned char)text[i])) {
            return -1;
        }
    }
    *seen = n;
    return 0;
}

/* ---- the request line ---- */

static int refuse(const char **why, int status, const char *reason) {
    *why = reason;
    return status;
}

static bool is_token(const char *s) {
    const char *p = s;
    while (head_is_token((unsigned char)*p)) p++;
    return p > s && !*p;
}

static int hex(char c) {
    static const char digits[] = "0123456789abcdef";
    const char *p = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;
    return p ? (int)(p - digits) : -1;
}

static bool is_escaped(const char *s) {
    for (; *s; s++) {
        if (*s != '%') continue;
        int high = hex(s[1]), low = high < 0 ? -1 : hex(s[2]);
        if (low < 0 || high + low == 0) return false; /* %00 would end the path for some and not for others */
        s += 2;
    }
    return true;
}

static bool is_host(const char *s) { return s[strcspn(s, " \t,/\\@?#\"<>{}|^`")] == 0; }

/* Of "http://host/path" the host, moved to make room for its end; NULL when it is of another form. *path is what is
 * left, "" for "/". RFC 9112, 3.2.2. */
static char *absolute_form(char *target, char **path) {
    size_t scheme = !strncasecmp(target, "http://", 7) ? 7 : !strncasecmp(target, "https://", 8) ? 8 : 0;
    if (scheme == 0) return NULL;
    char *host = target + scheme - 1;
    size_t n = strcspn(host + 1, "/");
    memmove(host, host + 1, n);
    host[n] = 0;
    *path = host + n + 1;
    return host;
}

static int parse_target(Head *head, char *target, const char **why) {
    if (strlen(target) > HTTP_MAX_URI) return refuse(why, 414, "the request target is too long");
    char *query = strchr(target, '?'), *path = target;
    bool clean = true;
    for (const char *p = target; *p; p++)
        if (*p <= ' ' || *p == 0x7f || *p == '\\' || *p == '#') clean = false; /* bytes beyond ASCII are negative */
    if (query) *query = 0;                                                     /* nobody here reads it */
    char *host = absolute_form(target, &path);
    if (host && *path == 0) path = "/";
    if (host && (*host == 0 || !is_host(host))) clean = false;
    if (!clean || *path != '/' || !is_escaped(path)) return refuse(why, 400, "malformed request target");
    head->target = path;
    head->authority = host;
    return 0;
}

static int parse_request_line(Head *head, char *line, const char **why) {
    static const char malformed[] = "the request line is not \"METHOD /path HTTP/1.1\"";
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version) return refuse(why, 400, malformed);
    *target++ = *version++ = 0;
    if (!is_token(line)) return refuse(why, 400, "malformed method");
    head->method = line;
    bool known = strlen(version) == 8 && !strncmp(version, "HTTP/", 5) && isdigit((unsigned char)version[5]) &&
                 version[6] == '.' && isdigit((unsigned char)version[7]);
    if (!known) return refuse(why, 400, malformed);
    if (version[5] != '1') return refuse(why, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    head->http11 = version[7] != '0'; /* later ones are served as 1.1 is: RFC 9110, 2.5 */
    return parse_target(head, target, why);
}

/* ---- the fields ---- */

#define ONE "more than one "
static const char *const twice[HEAD_FIELDS] = {
    [HEAD_HOST] = ONE "Host",
    [HEAD_LENGTH] = ONE "Content-Length",
    [HEAD_ENCODING] = ONE "Transfer-Encoding",
    [HEAD_CODING] = ONE "Content-Encoding",
    [HEAD_EXPECT] = ONE "Expect",
    [HEAD_AUTHORIZATION] = ONE "Authorization",
    [HEAD_API_KEY] = ONE "X-Api-Key",
    [HEAD_FETCH_SITE] = ONE "Sec-Fetch-Site",
    [HEAD_ORIGIN] = ONE "Origin",
    [HEAD_WANTED_METHOD] = ONE "Access-Control-Request-Method",
    [HEAD_WANTED_HEADERS] = ONE "Access-Control-Request-Headers",
    [HEAD_REQUEST_ID] = ONE "X-Request-Id",
    [HEAD_TRACE_PARENT] = ONE "Traceparent",
};

const char *head_name(HeadField field) { return twice[field] + strlen(ONE); }

/* Of `Connection: a, b`: whether `option` is among them. */
static bool lists(const char *value, const char *option) {
    size_t n = strlen(option);
    while (*value) {
        value += strspn(value, ", \t");
        size_t length = strcspn(value, ", \t");
        if (length == n && !strncasecmp(value, option, n)) return true;
        value += length;
    }
    return false;
}

typedef struct Connection {
    bool close, keep_alive;
} Connection;

static int parse_field(Head *head, Connection *connection, char *line, const char **why) {
    if (*line == ' ' || *line == '\t') return refuse(why, 400, "a folded header line");
    char *value = strchr(line, ':');
    if (!value) return refuse(why, 400, "a header line without a colon");
    *value++ = 0;
    if (!is_token(line)) return refuse(why, 400, "malformed header name (a space before the colon?)");
    value += strspn(value, " \t");
    for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t');) value[--n] = 0;
    if (!strcasecmp(line, "Connection")) {
        connection->close = connection->close || lists(value, "close");
        connection->keep_alive = connection->keep_alive || lists(value, "keep-alive");
    }
    for (int i = 0; i < HEAD_FIELDS; i++) {
        if (strcasecmp(line, head_name((HeadField)i))) continue;
        if (head->fields[i]) return refuse(why, 400, twice[i]);
        head->fields[i] = value;
    }
    return 0;
}

/* Digits only, at most max; -1 otherwise, -2 when beyond max. */
static int parse_length(const char *s, size_t max, size_t *length) {
    *length = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        *length = MIN(*length * 10 + (size_t)(*s - '0'), max + 1); /* stays above max for ever */
    }
    return *length > max ? -2 : 0;
}

static bool is_request_id(const char *s) {
    enum { LONGEST = 128 };
    size_t n = 0;
    while (isgraph((unsigned char)s[n])) n++;
    return n > 0 && n <= LONGEST && !s[n];
}

static const char trace_digits[] = "0123456789abcdef";

/* n digits of which one is not 0, behind which stands `after`. */
static bool is_trace_part(const char *s, size_t n, char after) {
    return strspn(s, trace_digits) == n && strspn(s, "0") < n && s[n] == after;
}

static bool is_trace_parent(const char *s) {
    if (strlen(s) < TRACE_PARENT_LENGTH || !memcmp(s, "ff", 2)) return false;
    const char *end = s + TRACE_PARENT_LENGTH;
    return strspn(s, trace_digits) == 2 && s[2] == '-' && is_trace_part(s + TRACE_AT, TRACE_DIGITS, '-') &&
           is_trace_part(s + PARENT_AT, PARENT_DIGITS, '-') && strspn(s + TRACE_FLAGS_AT, trace_digits) == 2 &&
           (!*end || (*end == '-' && memcmp(s, "00", 2) != 0));
}

static int judge(Head *head, const Connection *connection, size_t max_body, const char **why) {
    const char **f = head->fields;
    if (head->http11 && !f[HEAD_HOST]) return refuse(why, 400, "there is no Host");
    if (f[HEAD_HOST] && !is_host(f[HEAD_HOST])) return refuse(why, 400, "malformed Host");
    if (head->authority) f[HEAD_HOST] = head->authority;
    if (f[HEAD_ENCODING] && f[HEAD_LENGTH]) return refuse(why, 400, "Transfer-Encoding together with Content-Length");
    if (f[HEAD_ENCODING] && !head->http11) return refuse(why, 400, "Transfer-Encoding in HTTP/1.0");
    if (f[HEAD_ENCODING] && strcasecmp(f[HEAD_ENCODING], "chunked"))
        return refuse(why, 501, "unknown Transfer-Encoding");
    if (f[HEAD_EXPECT] && strcasecmp(f[HEAD_EXPECT], "100-continue")) return refuse(why, 417, "unknown expectation");
    int rc = f[HEAD_LENGTH] ? parse_length(f[HEAD_LENGTH], max_body, &head->length) : 0;
    if (rc == -1) return refuse(why, 400, "malformed Content-Length");
    if (rc == -2) return refuse(why, 413, "the body is too long");
    head->chunked = f[HEAD_ENCODING] != NULL;
    if ((head->chunked || head->length > 0) && (!strcmp(head->method, "GET") || !strcmp(head->method, "HEAD")))
        return refuse(why, 400, "a request of this method has no body");
    if ((head->chunked || head->length > 0) && f[HEAD_CODING] && strcasecmp(f[HEAD_CODING], "identity"))
        return refuse(why, 415, "a Content-Encoding: a body is read as it is");
    head->keep_alive = head->http11 ? !connection->close : connection->keep_alive && !connection->close;
    return 0;
}

int head_parse(Head *head, char *text, size_t n, size_t max_body, const char **why) {
    Connection connection = {0};
    char *line = text, *end = text + n - 2; /* the empty line */
    *head = (Head){0};
    for (int i = 0; line < end; i++) {
        char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
        *next = 0;
        if (i > HTTP_MAX_HEADERS) return refuse(why, 431, "too many headers");
        int status = i ? parse_field(head, &connection, line, why) : parse_request_line(head, line, why);
        if (status) return status;
        line = next + 2;
    }
    const char **id = &head->fields[HEAD_REQUEST_ID], **trace = &head->fields[HEAD_TRACE_PARENT];
    if (*id && !is_request_id(*id)) *id = NULL;
    if (*trace && !is_trace_parent(*trace)) *trace = NULL;
    return judge(head, &connection, max_body, why);
}

/* ---- for the other reader ---- */

static size_t put(char *text, size_t at, size_t max, const char *a, const char *b, const char *c, const char *d) {
    const char *const parts[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(parts[i]);
        if (at + n > max) return max + 1;
        memcpy(text + at, parts[i], n);
        at += n;
    }
    return at;
}

size_t head_write(const Head *head, char *text, size_t max) {
    size_t n = put(text, 0, max, head->method, " ", head->target, head->http11 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
    for (int i = 0; i < HEAD_FIELDS && n <= max; i++)
        if (head->fields[i]) n = put(text, n, max, head_name((HeadField)i), ": ", head->fields[i], "\r\n");
    if (n <= max) n = put(text, n, max, "Connection: ", head->keep_alive ? "keep-alive" : "close", "\r\n", "\r\n");
    return n <= max ? n : 0;
}
