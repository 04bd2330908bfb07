#include "server/http/head.h"

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

/* Percent signs away, in place. */
static bool decode(char *s) {
    char *out = s;
    for (; *s; s++) {
        if (*s == '%') {
            int high = hex(s[1]), low = high < 0 ? -1 : hex(s[2]);
            if (low < 0 || high + low == 0) return false; /* %00 would end the path for some and not for others */
            *out++ = (char)(high << 4 | low);
            s += 2;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
    return true;
}

static int parse_target(Head *head, char *target, const char **why) {
    if (strlen(target) > HTTP_MAX_URI) return refuse(why, 414, "the request target is too long");
    bool clean = *target == '/';
    for (const char *p = target; *p; p++)
        if (*p <= ' ' || *p == 0x7f || *p == '\\' || *p == '#') clean = false; /* bytes beyond ASCII are negative */
    char *query = strchr(target, '?');
    if (query) *query = 0; /* nobody here reads it */
    if (!clean || !decode(target)) return refuse(why, 400, "malformed request target");
    head->path = target;
    return 0;
}

static int parse_request_line(Head *head, char *line, const char **why) {
    static const char malformed[] = "the request line is not \"METHOD /path HTTP/1.1\"";
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version) return refuse(why, 400, malformed);
    *target++ = *version++ = 0;
    if (!is_token(line)) return refuse(why, 400, "malformed method");
    head->method = line;
    head->http11 = !strcmp(version, "HTTP/1.1");
    if (!head->http11 && strcmp(version, "HTTP/1.0")) {
        bool other = !strncmp(version, "HTTP/", 5) && strspn(version + 5, "0123456789.") == strlen(version + 5);
        if (!other || strlen(version) != 8) return refuse(why, 400, malformed);
        return refuse(why, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    return parse_target(head, target, why);
}

/* ---- the fields ---- */

enum {
    HOST,
    LENGTH,
    ENCODING,
    EXPECT,
    AUTHORIZATION,
    API_KEY,
    FETCH_SITE,
    ORIGIN,
    WANTED_METHOD,
    WANTED_HEADERS,
    REQUEST_ID,
    KNOWN
};

/* Of each of these there may be one: of two, another reader could take the other. */
static const struct {
    const char *name, *twice;
} known[KNOWN] = {
    [HOST] = {"Host", "more than one Host"},
    [LENGTH] = {"Content-Length", "more than one Content-Length"},
    [ENCODING] = {"Transfer-Encoding", "more than one Transfer-Encoding"},
    [EXPECT] = {"Expect", "more than one Expect"},
    [AUTHORIZATION] = {"Authorization", "more than one Authorization"},
    [API_KEY] = {"X-Api-Key", "more than one X-Api-Key"},
    [FETCH_SITE] = {"Sec-Fetch-Site", "more than one Sec-Fetch-Site"},
    [ORIGIN] = {"Origin", "more than one Origin"},
    [WANTED_METHOD] = {"Access-Control-Request-Method", "more than one Access-Control-Request-Method"},
    [WANTED_HEADERS] = {"Access-Control-Request-Headers", "more than one Access-Control-Request-Headers"},
    [REQUEST_ID] = {"X-Request-Id", "more than one X-Request-Id"},
};

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

typedef struct Fields {
    const char *values[KNOWN];
    bool close, keep_alive; /* Connection */
} Fields;

static int parse_field(Fields *f, char *line, const char **why) {
    if (*line == ' ' || *line == '\t') return refuse(why, 400, "a folded header line");
    char *value = strchr(line, ':');
    if (!value) return refuse(why, 400, "a header line without a colon");
    *value++ = 0;
    if (!is_token(line)) return refuse(why, 400, "malformed header name (a space before the colon?)");
    value += strspn(value, " \t");
    for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t');) value[--n] = 0;
    if (!strcasecmp(line, "Connection")) {
        f->close = f->close || lists(value, "close");
        f->keep_alive = f->keep_alive || lists(value, "keep-alive");
    }
    for (int i = 0; i < KNOWN; i++) {
        if (strcasecmp(line, known[i].name)) continue;
        if (f->values[i]) return refuse(why, 400, known[i].twice);
        f->values[i] = value;
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

static bool is_host(const char *s) { return s[strcspn(s, " \t,/\\@?#\"<>{}|^`")] == 0; }

static bool is_request_id(const char *s) {
    enum { LONGEST = 128 };
    size_t n = 0;
    while (s[n] > ' ' && s[n] < 0x7f) n++;
    return n > 0 && n <= LONGEST && !s[n];
}

static int judge(Head *head, const Fields *f, size_t max_body, const char **why) {
    const char *const *v = f->values;
    if (head->http11 && !v[HOST]) return refuse(why, 400, "there is no Host");
    if (v[HOST] && !is_host(v[HOST])) return refuse(why, 400, "malformed Host");
    if (v[ENCODING] && v[LENGTH]) return refuse(why, 400, "Transfer-Encoding together with Content-Length");
    if (v[ENCODING] && !head->http11) return refuse(why, 400, "Transfer-Encoding in HTTP/1.0");
    if (v[ENCODING] && strcasecmp(v[ENCODING], "chunked")) return refuse(why, 501, "unknown Transfer-Encoding");
    if (v[EXPECT] && strcasecmp(v[EXPECT], "100-continue")) return refuse(why, 417, "unknown expectation");
    int rc = v[LENGTH] ? parse_length(v[LENGTH], max_body, &head->length) : 0;
    if (rc == -1) return refuse(why, 400, "malformed Content-Length");
    if (rc == -2) return refuse(why, 413, "the body is too long");
    head->chunked = v[ENCODING] != NULL;
    if ((head->chunked || head->length > 0) && (!strcmp(head->method, "GET") || !strcmp(head->method, "HEAD")))
        return refuse(why, 400, "a request of this method has no body");
    head->expects = v[EXPECT] && head->http11;
    head->keep_alive = head->http11 ? !f->close : f->keep_alive && !f->close;
    head->authorization = v[AUTHORIZATION];
    head->api_key = v[API_KEY];
    head->fetch_site = v[FETCH_SITE];
    head->host = v[HOST];
    head->origin = v[ORIGIN];
    head->wanted_method = v[WANTED_METHOD];
    head->wanted_headers = v[WANTED_HEADERS];
    head->request_id = v[REQUEST_ID] && is_request_id(v[REQUEST_ID]) ? v[REQUEST_ID] : NULL;
    return 0;
}

int head_parse(Head *head, char *text, size_t n, size_t max_body, const char **why) {
    Fields fields = {0};
    char *line = text, *end = text + n - 2; /* the empty line */
    *head = (Head){0};
    for (int i = 0; line < end; i++) {
        char *next = strstr(line, "\r\n");
        *next = 0;
        if (i > HTTP_MAX_HEADERS) return refuse(why, 431, "too many headers");
        int status = i ? parse_field(&fields, line, why) : parse_request_line(head, line, why);
        if (status) return status;
        line = next + 2;
    }
    return judge(head, &fields, max_body, why);
}
