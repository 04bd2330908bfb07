#include "tokenizer/jinja/lexer.h"

#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/jinja/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Lexer {
    JinjaWork *w;
    const char *at, *end;
    bool line_begins; /* the last tag took its line end with it */
    Token *tokens;
    size_t n, capacity;
} Lexer;

static Token *push(Lexer *l, TokenKind kind, const char *text, size_t n) {
    l->tokens = work_grow(l->w, l->tokens, l->n, &l->capacity, sizeof *l->tokens);
    Token *t = &l->tokens[l->n++];
    *t = (Token){.kind = kind, .line = l->w->line, .text = text_of(l->w, text, n, MARK_TEMPLATE)};
    return t;
}

static void move(Lexer *l, size_t n) {
    for (; n; n--) l->w->line += *l->at++ == '\n';
}

static bool follows(const Lexer *l, const char *word) {
    size_t n = strlen(word);
    return (size_t)(l->end - l->at) >= n && !memcmp(l->at, word, n);
}

static void skip_white(Lexer *l) {
    for (size_t n; (n = text_white(l->at, (size_t)(l->end - l->at)));) move(l, n);
}

/* Behind a tag that ended with `sign` in front of its bracket. */
static void after_tag(Lexer *l, char sign, bool block) {
    if (sign == '-') skip_white(l);
    if (block && !sign && l->at < l->end && *l->at == '\n') move(l, 1);
    l->line_begins = l->at[-1] == '\n';
}

/* The sign is '-', '+' or 0. */
static bool take_end(Lexer *l, const char *bracket, char *sign) {
    *sign = l->at < l->end && (*l->at == '-' || (*l->at == '+' && *bracket != '}')) ? *l->at : 0;
    if ((size_t)(l->end - l->at) < 2u + (*sign != 0) || memcmp(l->at + (*sign != 0), bracket, 2)) return false;
    move(l, 2u + (*sign != 0));
    return true;
}

/* ---- what stands between tags ---- */

static void push_data(Lexer *l, const char *from, const char *to, char sign, bool block) {
    MarkedText data = text_of(l->w, from, (size_t)(to - from), MARK_TEMPLATE);
    size_t line = data.n;
    while (line && data.data[line - 1] != '\n') line--;
    MarkedText last = text_cut(data, line, data.n);
    if (sign == '-')
        data = text_strip(l->w, data, value_none(), false, true);
    else if (sign != '+' && block && (line || l->line_begins) && !text_strip(l->w, last, value_none(), true, false).n)
        data.n = line;
    if (data.n) push(l, TOKEN_DATA, data.data, data.n);
}

static void skip_comment(Lexer *l) {
    const char *end = memmem(l->at, (size_t)(l->end - l->at), "#}", 2);
    char sign = 0;
    if (!end) work_fail(l->w, "a comment has no end");
    if (end > l->at && (end[-1] == '-' || end[-1] == '+')) sign = end[-1];
    move(l, (size_t)(end + 2 - l->at));
    after_tag(l, sign, true);
}

/* ---- inside a tag ---- */

/* What stands behind a backslash: how many bytes. Whatever is no escape stands for itself, with its backslash. */
static size_t unescape(Lexer *l, Builder *b, const char *at, const char *end) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *plain = memchr(from, *at, sizeof from - 1);
    size_t width = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0, n = 0;
    char digits[9] = "", bytes[4];
    for (; n < width && at + 1 + n < end && isxdigit((unsigned char)at[1 + n]); n++) digits[n] = at[1 + n];
    unsigned long code = strtoul(digits, NULL, 16);
    if (n < width || isdigit((unsigned char)*at) || *at == 'N' || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        work_fail(l->w, "\\%c does not begin a character", *at);
    if (plain)
        build_bytes(l->w, b, &to[plain - from], 1, MARK_TEMPLATE);
    else if (width)
        build_bytes(l->w, b, bytes, utf8_put((uint32_t)code, bytes), MARK_TEMPLATE);
    else if (*at != '\n')
        build_bytes(l->w, b, "\\", 1, MARK_TEMPLATE);
    return plain || *at == '\n' ? 1 : width + (width > 0);
}

static void lex_string(Lexer *l) {
    const char *from = l->at + 1, *to = from;
    Builder b = {0};
    while (to < l->end && *to != *l->at) to += *to == '\\' && to + 1 < l->end ? 2 : 1;
    if (to >= l->end) work_fail(l->w, "a string has no end");
    for (const char *at = from; at < to;) {
        const char *slash = memchr(at, '\\', (size_t)(to - at));
        build_bytes(l->w, &b, at, (size_t)((slash ? slash : to) - at), MARK_TEMPLATE);
        at = slash ? slash + 1 + unescape(l, &b, slash + 1, to) : to;
    }
    push(l, TOKEN_VALUE, "", 0)->value = value_text(built(&b));
    move(l, (size_t)(to + 1 - l->at));
}

static void lex_number(Lexer *l) {
    static const char all[] = "0123456789";
    char digits[64];
    size_t n = strspn(l->at, all), part = l->at[n] == '.' ? strspn(l->at + n + 1, all) : 0;
    size_t length = part ? n + 1 + part : n;
    snprintf(digits, sizeof digits, "%.*s", (int)MIN(length, sizeof digits), l->at);
    errno = 0;
    Value v = part ? value_float(strtod(digits, NULL)) : value_int(strtoll(digits, NULL, 10));
    if (length >= sizeof digits || errno) work_fail(l->w, "%s is a number beyond 64 bits", digits);
    push(l, TOKEN_VALUE, l->at, length)->value = v;
    move(l, length);
}

static void lex_sign(Lexer *l) {
    static const char *const two[] = {"==", "!=", ">=", "<=", "//"};
    size_t n = 1;
    for (size_t i = 0; i < COUNTOF(two); i++) n += follows(l, two[i]);
    if (!strchr("+-/*%~[](){}><=!.:|,", *l->at))
        work_fail(l->w, "unexpected character %.*s", (int)MAX(utf8_char_length(l->at, (size_t)(l->end - l->at)), 1),
                  l->at);
    push(l, TOKEN_SIGN, l->at, n);
    move(l, n);
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c & 0x80; }

/* Brackets that are open hide the end of the tag. */
static void lex_tag(Lexer *l, const char *bracket) {
    int open = 0, line = l->w->line;
    char sign;
    for (;;) {
        skip_white(l);
        if (l->at == l->end) {
            l->w->line = line;
            work_fail(l->w, "a tag has no end");
        }
        if (open == 0 && take_end(l, bracket, &sign)) break;
        const char *from = l->at;
        if (isdigit((unsigned char)*l->at)) {
            lex_number(l);
        } else if (is_name(*l->at)) {
            while (l->at < l->end && is_name(*l->at)) l->at++;
            push(l, TOKEN_NAME, from, (size_t)(l->at - from));
        } else if (*l->at == '\'' || *l->at == '"') {
            lex_string(l);
        } else {
            open += strchr("([{", *from) != NULL;
            open -= open && strchr(")]}", *from);
            lex_sign(l);
        }
    }
    push(l, TOKEN_SIGN, bracket, 2);
    after_tag(l, sign, *bracket == '%');
}

/* ---- all of it ---- */

static const char *next_tag(const Lexer *l) {
    const char *at = l->at;
    while ((at = memchr(at, '{', (size_t)(l->end - at))) && at + 1 < l->end && !strchr("%{#", at[1])) at++;
    return at && at + 1 < l->end ? at : NULL;
}

/* Line ends are newlines, the last of which does not count. */
static MarkedText normalize(JinjaWork *w, const char *source, size_t n) {
    char *copy = work_take(w, n + 1);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        copy[kept++] = source[i] == '\r' ? '\n' : source[i];
    }
    return text_of(w, copy, kept - (kept && copy[kept - 1] == '\n'), MARK_TEMPLATE);
}

Token *lex(JinjaWork *w, const char *source, size_t n) {
    MarkedText text = normalize(w, source, n);
    Lexer l = {.w = w, .at = text.data, .end = text.data + text.n, .line_begins = true};
    w->line = 1;
    if (memchr(source, '\0', n)) work_fail(w, "a zero byte");
    for (const char *tag; (tag = next_tag(&l));) {
        char kind = tag[1], sign = tag + 2 < l.end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
        push_data(&l, l.at, tag, sign, kind != '{');
        move(&l, (size_t)(tag - l.at) + 2 + (sign != 0));
        if (kind == '#') {
            skip_comment(&l);
            continue;
        }
        push(&l, TOKEN_SIGN, tag, 2);
        lex_tag(&l, kind == '{' ? "}}" : "%}");
    }
    push_data(&l, l.at, l.end, 0, false);
    push(&l, TOKEN_END, "", 0);
    return l.tokens;
}
