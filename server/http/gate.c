#include "base/err.h"
#include "server/http/connection.h"

#include <string.h>
#include <strings.h>

int http_gate_uri(const char *uri) {
    if (strlen(uri) > HTTP_MAX_URI) return 414;
    for (const char *p = uri; *p; p++)
        if (*p <= ' ' || *p == 0x7f || *p == '\\' || *p == '#' || !strncmp(p, "%00", 3)) return 400;
    return *uri == '/' ? 0 : 400;
}

typedef struct Head {
    int headers, hosts, lengths, encodings;
    size_t bytes;
    const char *length, *encoding;
    bool malformed;
} Head;

static bool is_token(const char *s, size_t n) {
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        char c = s[i], letter = (char)(c | 32);
        if (!((letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || (c && strchr(others, c)))) return false;
    }
    return n > 0;
}

static bool is_text(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f) return false;
    return true;
}

static enum MHD_Result see_header(void *cls, enum MHD_ValueKind kind, const char *key, size_t n_key, const char *value,
                                  size_t n_value) {
    Head *h = cls;
    (void)kind;
    h->headers++;
    h->bytes += n_key + n_value + 4;
    if (!is_token(key, n_key) || !is_text(value, n_value)) h->malformed = true;
    if (!strcasecmp(key, "Host")) h->hosts++;
    if (!strcasecmp(key, "Content-Length")) {
        h->lengths++;
        h->length = value;
    }
    if (!strcasecmp(key, "Transfer-Encoding")) {
        h->encodings++;
        h->encoding = value;
    }
    return MHD_YES;
}

/* Digits only, at most max; -1 otherwise, -2 when beyond max. */
static int check_length(const char *s, size_t max) {
    size_t n = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        n = MIN(n * 10 + (size_t)(*s - '0'), max + 1); /* stays above max for ever */
    }
    return n > max ? -2 : 0;
}

static int refuse(const char **why, int status, const char *reason) {
    *why = reason;
    return status;
}

int http_gate_head(struct MHD_Connection *mhd, const char *method, const char *version, size_t max_body,
                   const char **why) {
    bool http11 = !strcmp(version, "HTTP/1.1");
    if (!http11 && strcmp(version, "HTTP/1.0")) return refuse(why, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (!is_token(method, strlen(method))) return refuse(why, 400, "malformed method");
    Head h = {0};
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, see_header, &h);
    if (h.malformed) return refuse(why, 400, "malformed header");
    if (h.headers > HTTP_MAX_HEADERS) return refuse(why, 431, "too many headers");
    if (h.bytes > HTTP_MAX_HEAD) return refuse(why, 431, "headers too long");
    if (h.hosts > 1 || (http11 && h.hosts == 0)) return refuse(why, 400, "there must be exactly one Host header");
    if (h.lengths > 1) return refuse(why, 400, "more than one Content-Length");
    if (h.encodings > 1) return refuse(why, 400, "more than one Transfer-Encoding");
    if (h.encodings && h.lengths) return refuse(why, 400, "Transfer-Encoding together with Content-Length");
    if (h.encodings && !http11) return refuse(why, 400, "Transfer-Encoding in HTTP/1.0");
    if (h.encodings && strcasecmp(h.encoding, "chunked")) return refuse(why, 501, "unknown Transfer-Encoding");
    int rc = h.lengths ? check_length(h.length, max_body) : 0;
    if (rc == -1) return refuse(why, 400, "malformed Content-Length");
    if (rc == -2) return refuse(why, 413, "the body is too long");
    bool has_body = h.encodings || (h.lengths && strspn(h.length, "0") < strlen(h.length));
    if (has_body && (!strcmp(method, "GET") || !strcmp(method, "HEAD")))
        return refuse(why, 400, "a request of this method has no body");
    if (MHD_get_connection_values_n(mhd, MHD_GET_ARGUMENT_KIND, NULL, NULL) > 0)
        return refuse(why, 400, "no route here takes query parameters");
    return 0;
}
