#include "tokenizer/pretokenize.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

struct Pretokenizer {
    pcre2_general_context *memory;
    pcre2_code *codes[WORD_PATTERNS_MAX];
    int n;
};

/* One expression at work on one piece. */
typedef struct Cutter {
    const pcre2_code *code;
    pcre2_match_data *match;
    const char *text;
    size_t n, at;
    size_t match_end; /* beyond `at`: text[at..match_end) is a match that was found behind a gap */
} Cutter;

struct WordScan {
    Cutter cutters[WORD_PATTERNS_MAX];
    int n_cutters;
    pcre2_match_context *limits;
    unsigned matches; /* in this text */
    double began;     /* seconds of the thread's processor time at the first of WATCHED matches */
    const char *text;
    size_t n, at;
};

/* ---- expressions ---- */

/* \s and \S as Unicode's White_Space: pcre2's own \s holds U+180E too. malloc'ed. */
static char *spell_spaces(const char *pattern) {
    static const char space[] = "\\p{White_Space}";
    char *out = xmalloc(strlen(pattern) * (sizeof space - 1) + 1), *at = out;
    for (const char *p = pattern; *p; p++) {
        if (*p != '\\' || !p[1]) {
            *at++ = *p;
            continue;
        }
        char escaped = *++p;
        if (escaped == 's' || escaped == 'S') {
            at = mempcpy(at, space, sizeof space - 1);
            if (escaped == 'S') at[-(int)(sizeof space - 2)] = 'P';
        } else {
            *at++ = '\\';
            *at++ = escaped;
        }
    }
    *at = 0;
    return out;
}

/* Such expressions are written for Oniguruma, in Ruby's syntax. What of one pcre2 would read otherwise; NULL: nothing.
 */
static const char *read_otherwise(const char *pattern) {
    bool in_class = false;
    for (const char *p = pattern; *p; p++)
        if (*p == '\\' && p[1]) {
            p++;
            if (strchr(in_class ? "hHwW" : "hHwWbB", *p)) return "\\h, \\w or \\b";
            if (strchr("pPx", *p) && p[1] == '{') p += strcspn(p, "}");
        } else if (in_class) {
            if (*p == '[' || !strncmp(p, "&&", 2)) return "a class in a class";
            in_class = *p != ']';
        } else if (*p == '[') {
            in_class = true;
            p += p[1] == '^';
            p += p[1] == ']';
        } else if (!strncmp(p, "}+", 2) || !strncmp(p, "{,", 2)) {
            return "{m,n}+ or {,n}";
        } else if (!strncmp(p, "(?", 2) && p[2 + strspn(p + 2, "ix-")] == 'm') {
            return "(?m";
        }
    return NULL;
}

static void *allocate(size_t n, void *data) {
    (void)data;
    return try_malloc(n);
}

static void release(void *p, void *data) {
    (void)data;
    free(p);
}

static pcre2_code *refuse(const char *pattern, const char *what, Err *err) {
    err_set(err, "the pattern \"%.200s\" holds %s, which is not read as Hugging Face's tokenizers reads it", pattern,
            what);
    return NULL;
}

static pcre2_code *compile(const char *pattern, pcre2_general_context *memory, Err *err) {
    int code;
    uint32_t empty = 0;
    PCRE2_SIZE offset;
    const char *otherwise = read_otherwise(pattern);
    if (otherwise) return refuse(pattern, otherwise, err);
    char *spelt = spell_spaces(pattern);
    pcre2_compile_context *context = pcre2_compile_context_create(memory);
    if (!context) memory_exhausted(strlen(pattern));
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)spelt, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    pcre2_compile_context_free(context);
    free(spelt);
    if (!compiled) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        err_set(err, "the pattern \"%.200s\" is no regular expression: %s", pattern, (const char *)why);
        return NULL;
    }
    pcre2_pattern_info(compiled, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) {
        pcre2_code_free(compiled);
        return refuse(pattern, "a match of no characters", err);
    }
    /* Where executable memory is denied (systemd's MemoryDenyWriteExecute) this fails and pcre2_match interprets. */
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return compiled;
}

Pretokenizer *pretokenizer_new(const char *const *patterns, int n, Err *err) {
    BUG_ON(n < 1 || n > WORD_PATTERNS_MAX);
    Pretokenizer *p = xcalloc(1, sizeof *p);
    p->memory = pcre2_general_context_create(allocate, release, NULL);
    if (!p->memory) memory_exhausted(sizeof *p);
    for (; p->n < n; p->n++) {
        p->codes[p->n] = compile(patterns[p->n], p->memory, err);
        if (p->codes[p->n]) continue;
        pretokenizer_free(p);
        return NULL;
    }
    return p;
}

void pretokenizer_free(Pretokenizer *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++) pcre2_code_free(p->codes[i]);
    pcre2_general_context_free(p->memory);
    free(p);
}

/* ---- one expression ---- */

static void cutter_start(Cutter *c, const char *text, size_t n) {
    c->text = text;
    c->n = n;
    c->at = c->match_end = 0;
}

/* Steps of one match: a thousandth of a second or a few. The expressions of published tokenizers go back a step or two
 * a word. */
enum { MATCH_STEPS = 1 << 18, WATCHED = 64 };

/* An expression that tries all ways at every byte comes to an end too: some eighty times as late as a published one. */
static int check_time(WordScan *s, Err *err) {
    static const double ALWAYS = 1, A_BYTE = 1e-5; /* seconds */
    if (s->matches++ % WATCHED) return 0;
    double now = thread_seconds(), most = ALWAYS + A_BYTE * (double)s->n;
    if (s->matches == 1) s->began = now;
    if (now - s->began <= most) return 0;
    return err_set(
        err, "pre-tokenisation took %.1f s for %zu of %zu bytes: the tokenizer's expression is too slow for this text",
        now - s->began, s->at, s->n);
}

static int cutter_next(WordScan *s, Cutter *c, const char **piece, size_t *n, Err *err) {
    if (c->at == c->n) return 0;
    size_t start = c->at, end = c->match_end;
    if (end <= start) {
        /* Without NO_UTF_CHECK every call would walk the rest of the text: quadratic. */
        if (check_time(s, err)) return -1;
        int rc = pcre2_match(c->code, (PCRE2_SPTR)c->text, c->n, start, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, c->match,
                             s->limits);
        if (rc == PCRE2_ERROR_MATCHLIMIT)
            return err_set(
                err,
                "pre-tokenisation failed at byte %zu of %zu: the tokenizer's expression is not done after %d steps",
                start, c->n, MATCH_STEPS);
        if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
            return err_set(err, "pre-tokenisation failed at byte %zu of %zu: pcre2 error %d", start, c->n, rc);
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(c->match);
        end = rc < 0 ? c->n : found[1];
        if (rc >= 0 && found[0] > start) {
            c->match_end = end;
            end = found[0];
        }
    }
    *piece = c->text + start;
    *n = end - start;
    c->at = end;
    return 1;
}

/* ---- all of them ---- */

WordScan *word_scan_open(const Pretokenizer *p) {
    WordScan *s = try_calloc(1, sizeof *s);
    if (s && !(s->limits = pcre2_match_context_create(p->memory))) {
        free(s);
        return NULL;
    }
    if (s) pcre2_set_match_limit(s->limits, MATCH_STEPS);
    for (int i = 0; s && i < p->n; i++) {
        s->n_cutters++;
        s->cutters[i].code = p->codes[i];
        s->cutters[i].match = pcre2_match_data_create(1, p->memory);
        if (s->cutters[i].match) continue;
        word_scan_close(s);
        return NULL;
    }
    return s;
}

void word_scan_close(WordScan *s) {
    if (!s) return;
    for (int i = 0; i < s->n_cutters; i++) pcre2_match_data_free(s->cutters[i].match);
    pcre2_match_context_free(s->limits);
    free(s);
}

void word_scan_start(WordScan *s, const char *text, size_t n) {
    s->text = text;
    s->n = n;
    s->at = 0;
    s->matches = 0;
    for (int i = 0; i < s->n_cutters; i++) cutter_start(&s->cutters[i], text, 0);
}

static size_t invalid_run(const char *text, size_t n) {
    size_t i = 0;
    while (i < n && !utf8_char_length(text + i, n - i)) i++;
    return i;
}

int word_scan_next(WordScan *s, const char **word, size_t *n, Err *err) {
    /* The last expression that still has something gives a piece, which the ones behind it cut further. */
    for (int level = s->n_cutters - 1;;) {
        int rc = cutter_next(s, &s->cutters[level], word, n, err);
        if (rc < 0) return -1;
        if (rc > 0) {
            if (++level == s->n_cutters) return 1;
            cutter_start(&s->cutters[level], *word, *n);
            continue;
        }
        if (--level >= 0) continue;
        if (s->at == s->n) return 0;
        *word = s->text + s->at;
        *n = utf8_valid_prefix(*word, s->n - s->at);
        bool valid = *n > 0;
        if (!valid) *n = invalid_run(*word, s->n - s->at);
        s->at += *n;
        if (!valid) return 1;
        level = 0;
        cutter_start(&s->cutters[level], *word, *n);
    }
}
