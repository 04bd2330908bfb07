/* page: the one file that GET / sends, joined from the sources in this folder by server/page/join.sh when noised is
 * built. It asks nobody but the server it came from, which its Content-Security-Policy holds it to. */
#ifndef NOISED_PAGE_H
#define NOISED_PAGE_H

#include "base/err.h"

extern const char page_html[]; /* not NUL-terminated */
extern const size_t page_bytes;

/* The policy: the one script and the one style of page_html, by their hashes, and requests to the same origin.
 * Constant; made at the first call, so one thread at first. */
const char *page_policy(void);

#endif
