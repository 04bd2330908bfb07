#include "tokenizer/pretokenize.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

/* \p{White_Space} and not \s, which in pcre2 holds U+180E too. */
#define SPACE "\\p{White_Space}"
static const char PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACE "+(?!\\P{White_Space})|" SPACE "+";

struct Pretokenizer {
    pcre2_code *code;
};

struct WordScan {
    const Pretokenizer *pretokenizer;
    pcre2_match_data *match;
    const char *text;
    size_t n, at, valid_end; /* text[at..valid_end) is UTF-8 */
};

Pretokenizer *pretokenizer_new(void) {
    int code;
    PCRE2_SIZE offset;
    Pretokenizer *p = xcalloc(1, sizeof *p);
    /* Every character starts a match, so anchoring only spares the search for a start. */
    p->code = pcre2_compile((PCRE2_SPTR)PATTERN, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code,
                            &offset, NULL);
    BUG_ON(!p->code);
    /* Where executable memory is denied (systemd's MemoryDenyWriteExecute) this fails and pcre2_match interprets. */
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return p;
}

void pretokenizer_free(Pretokenizer *p) {
    if (!p) return;
    pcre2_code_free(p->code);
    free(p);
}

WordScan *word_scan_open(const Pretokenizer *p) {
    WordScan *s = xcalloc(1, sizeof *s);
    s->pretokenizer = p;
    s->match = pcre2_match_data_create(1, NULL);
    BUG_ON(!s->match);
    return s;
}

void word_scan_close(WordScan *s) {
    if (!s) return;
    pcre2_match_data_free(s->match);
    free(s);
}

void word_scan_start(WordScan *s, const char *text, size_t n) {
    s->text = text;
    s->n = n;
    s->at = 0;
    s->valid_end = utf8_valid_prefix(text, n);
}

static size_t invalid_run(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && !utf8_char_length(text + i, n - i)) i++;
    return i;
}

int word_scan_next(WordScan *s, const char **word, size_t *n, Err *err) {
    if (s->at == s->n) return 0;
    *word = s->text + s->at;
    if (s->at == s->valid_end) {
        *n = invalid_run(*word, s->n - s->at);
        s->at += *n;
        s->valid_end = s->at + utf8_valid_prefix(s->text + s->at, s->n - s->at);
        return 1;
    }
    /* Without NO_UTF_CHECK every call would walk the rest of the text: quadratic. */
    int rc = pcre2_match(s->pretokenizer->code, (PCRE2_SPTR)*word, s->valid_end - s->at, 0, PCRE2_NO_UTF_CHECK,
                         s->match, NULL);
    if (rc < 0) return err_set(err, "pre-tokenisation failed at byte %zu of %zu: pcre2 error %d", s->at, s->n, rc);
    *n = pcre2_get_ovector_pointer(s->match)[1];
    BUG_ON(*n == 0);
    s->at += *n;
    return 1;
}
