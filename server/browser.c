#include "server/browser.h"

#include "server/options.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static bool lists(const OptionList *list, const char *word) {
    for (int i = 0; i < list->n; i++)
        if (!strcasecmp(list->items[i], word)) return true;
    return false;
}

/* The name in "name", "name:port", "[v6]:port"; false for anything else. */
static bool host_name(const char *host, char name[256]) {
    bool v6 = *host == '[';
    const char *start = host + v6, *end = start + strcspn(start, v6 ? "]" : ":"), *rest = end + v6;
    struct in6_addr address;
    if (v6 && !*end) return false;
    snprintf(name, 256, "%.*s", (int)(end - start), start);
    if (v6 && inet_pton(AF_INET6, name, &address) != 1) return false;
    return !*rest || (*rest == ':' && !rest[1 + strspn(rest + 1, "0123456789")]);
}

static bool is_known(const BrowserRules *b, const char *host) {
    char name[256];
    return host_name(host, name) &&
           (!strcasecmp(name, "localhost") || options_is_loopback(name) || lists(b->hosts, name));
}

static int check_host(const BrowserRules *b, const char *host, ApiError *e) {
    if ((!b->loopback && b->hosts->n == 0) || !host || !*host) return 0; /* no browser leaves it empty */
    if (is_known(b, host)) return 0;
    return api_fail(e, 403, "unknown_host", NULL,
                    "the Host \"%.200s\" is neither a loopback name nor an --allowed-host of the server", host);
}

static bool is_own(const char *origin, const char *host) {
    const char *authority = strstr(origin, "://");
    return authority && host && !strcasecmp(authority + 3, host);
}

static bool is_foreign(const HttpRequest *r) {
    if (r->fetch_site) return strcasecmp(r->fetch_site, "same-origin") != 0 && strcasecmp(r->fetch_site, "none") != 0;
    return r->origin && !is_own(r->origin, r->host);
}

static bool is_named(const BrowserRules *b, const HttpRequest *r) {
    return r->origin && (lists(b->origins, "*") || lists(b->origins, r->origin));
}

int browser_check(const BrowserRules *b, const HttpRequest *request, HttpReply *reply, ApiError *e) {
    bool everybody = lists(b->origins, "*");
    bool named = is_named(b, request);
    if (check_host(b, request->host, e)) return -1;
    if (b->origins->n > 0 && !everybody) buffer_text(&reply->headers, "Vary: Origin\r\n");
    if (named)
        buffer_print(
            &reply->headers,
            "Access-Control-Allow-Origin: %s\r\n"
            "Access-Control-Expose-Headers: x-request-id, traceparent, x-noised-ignored, retry-after, retry-after-ms, "
            "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
            "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens\r\n",
            everybody ? "*" : request->origin);
    if (named && !everybody) buffer_text(&reply->headers, "Access-Control-Allow-Credentials: true\r\n");
    /* The body must be JSON whatever its label says (curl -d says form). What the label would have kept out, pages of
     * other origins that post to the reader's own machine, browsers mark by themselves. */
    if (named || strcmp(request->method, "POST") != 0 || !is_foreign(request)) return 0;
    return api_fail(e, 403, "cross_site", NULL,
                    "pages of another origin may not post here, but for those of --cors-origin");
}

bool browser_preflight(const BrowserRules *b, const HttpRequest *request, HttpReply *reply) {
    if (strcmp(request->method, "OPTIONS") != 0 || !request->origin || !request->wanted_method) return false;
    reply->status = 200;
    if (!is_named(b, request)) return true; /* without the headers the browser refuses by itself */
    /* HEAD is allowed by every browser unsaid. The headers are named one by one: a "*" is none where credentials are.
     */
    buffer_text(&reply->headers, "Access-Control-Allow-Methods: GET, POST\r\nAccess-Control-Max-Age: 600\r\n");
    if (request->wanted_headers && *request->wanted_headers) /* the library takes no field without a value */
        buffer_print(&reply->headers, "Access-Control-Allow-Headers: %s\r\n", request->wanted_headers);
    return true;
}
