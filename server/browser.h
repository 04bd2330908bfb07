/* browser: what keeps pages of other origins out, and lets in those that the operator names.
 *
 * A page may call the daemon when its origin is the daemon's own or one of --cors-origin. On loopback, and
 * wherever names are given (--allowed-host), the Host header must be a loopback name or one of these: a page of
 * evil.example whose name is pointed at 127.0.0.1 afterwards (DNS rebinding) is of the daemon's own origin to the
 * browser, and only Host tells.
 *
 * A page of a named origin may send credentials too. The daemon has none that a browser sends by itself (a key is a
 * header that the page must know), but a proxy in front may let its readers in by a cookie: then the operator's own
 * pages get through, and what they may do there is what naming them means. With "*" nobody may: any page that a reader
 * opens could ask with the reader's cookie. */
#ifndef NOISED_BROWSER_H
#define NOISED_BROWSER_H

#include "base/options/options.h"
#include "server/api/error.h"
#include "server/http/http.h"

typedef struct BrowserRules {
    const OptionList *origins; /* "https://a.example", or "*", which makes no difference between those it lets in */
    const OptionList *hosts;   /* names of this server besides loopback's */
    bool loopback;             /* it listens there only */
} BrowserRules;

/* Before anything else of a request is looked at. Adds the CORS headers to the reply where the origin may have them. */
int browser_check(const BrowserRules *b, const HttpRequest *request, HttpReply *reply, ApiError *e);

/* After browser_check: true when the request is a preflight, and the reply is filled. It carries no key. */
bool browser_preflight(const BrowserRules *b, const HttpRequest *request, HttpReply *reply);

#endif
