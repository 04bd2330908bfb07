#include "server/page/page.h"

#include "base/sha256.h"

#include <openssl/evp.h>
#include <string.h>

/* What a policy calls the text between the two tags: its SHA-256 in base64. */
static void hash_between(const char *open, const char *close, char base64[64]) {
    unsigned char digest[SHA256_BYTES];
    Sha256 s;
    const char *from = memmem(page_html, page_bytes, open, strlen(open));
    BUG_ON(!from);
    from += strlen(open);
    const char *to = memmem(from, page_bytes - (size_t)(from - page_html), close, strlen(close));
    BUG_ON(!to);
    sha256_init(&s);
    sha256_add(&s, from, (size_t)(to - from));
    sha256_peek(&s, digest);
    EVP_EncodeBlock((unsigned char *)base64, digest, SHA256_BYTES);
}

const char *page_policy(void) {
    static char policy[512];
    char script[64], style[64];
    if (*policy) return policy;
    hash_between("<script type=\"module\">", "</script>", script);
    hash_between("<style>", "</style>", style);
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; img-src data:; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             script, style);
    return policy;
}
