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
    if (l->n == l->capacity) {
        Token *more = work_take(l->w, MAX(2 * l->n, 64) * sizeof *more);
        if (l->n) memcpy(more, l->tokens, l->n * sizeof *more);
        l->tokens = more;
        l->capacity = MAX(2 * l->n, 64);
    }
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
        data = text_strip(l->w, data, (Value){0}, false, true);
    else if (sign != '+' && block && (line || l->line_begins) && !text_strip(l->w, last, (Value){0}, true, false).n)
        data.n = line;
    if (data.n) push(l, TOKEN_DATA, data.data, data.n);
}

static void skip_comment(Lexer *l) {
    char sign;
    while (!take_end(l, "#}", &sign)) {
        if (l->at == l->end) work_fail(l->w, "a comment has no end");
        move(l, 1);
    }
    after_tag(l, sign, true);
}

/* {% raw %}: false when it is another block. */
static bool take_raw(Lexer *l) {
    Lexer start = *l;
    int line = l->w->line;
    char sign, front;
    skip_white(l);
    if (follows(l, "raw")) {
        move(l, 3);
        skip_white(l);
        if (take_end(l, "%}", &sign) && sign != '+') {
            after_tag(l, sign, false);
            l->line_begins = false;
            for (const char *from = l->at; l->at < l->end; move(l, 1)) {
                const char *to = l->at;
                if (!follows(l, "{%")) continue;
                Lexer inside = *l;
                int here = l->w->line;
                move(l, 2);
                front = l->at < l->end && (*l->at == '-' || *l->at == '+') ? *l->at : 0;
                move(l, front != 0);
                skip_white(l);
                bool ends = follows(l, "endraw");
                if (ends) move(l, 6), skip_white(l);
                if (ends && take_end(l, "%}", &sign)) {
                    push_data(l, from, to, front, true);
                    after_tag(l, sign, true);
                    return true;
                }
                l->at = inside.at;
                l->w->line = here;
            }
            work_fail(l->w, "raw has no endraw");
        }
    }
    *l = start;
    l->w->line = line;
    return false;
}

/* ---- inside a tag ---- */

static size_t escape_digits(const char *at, const char *end, size_t most, int base, uint32_t *code) {
    size_t n = 0;
    for (*code = 0; n < most && at + n < end; n++) {
        int digit = isdigit((unsigned char)at[n])    ? at[n] - '0'
                    : isxdigit((unsigned char)at[n]) ? (at[n] | 32) - 'a' + 10
                                                     : 99;
        if (digit >= base) break;
        *code = *code * (uint32_t)base + (uint32_t)digit;
    }
    return n;
}

/* What stands behind a backslash: how many bytes. Whatever is no escape stands for itself, with its backslash. */
static size_t unescape(Lexer *l, Builder *b, const char *at, const char *end) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *plain = memchr(from, *at, sizeof from - 1);
    size_t width = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0, n;
    uint32_t code;
    char bytes[4];
    if (*at == '\n') return 1;
    if (plain) {
        build_bytes(l->w, b, &to[plain - from], 1, MARK_TEMPLATE);
        return 1;
    }
    n = escape_digits(at + (width != 0), end, width ? width : 3, width ? 16 : 8, &code);
    if ((width && n < width) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        work_fail(l->w, "\\%c does not begin a character", *at);
    if (n == 0) {
        build_bytes(l->w, b, "\\", 1, MARK_TEMPLATE);
        return 0;
    }
    build_bytes(l->w, b, bytes, utf8_put(code, bytes), MARK_TEMPLATE);
    return n + (width != 0);
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
    char digits[64], *end;
    size_t n = 0;
    int64_t integer;
    for (const char *p = l->at; p < l->end && n < sizeof digits - 1; p++) {
        bool exponent = (*p == '+' || *p == '-') && n && (digits[n - 1] | 32) == 'e';
        bool point = *p == '.' && p + 1 < l->end && isdigit((unsigned char)p[1]) && !memchr(digits, '.', n);
        if (!isalnum((unsigned char)*p) && *p != '_' && !exponent && !point) break;
        digits[n++] = *p;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (digits[i] != '_') digits[kept++] = digits[i];
    digits[kept] = '\0';
    errno = 0;
    if (strpbrk(digits, ".eE") && strncmp(digits, "0x", 2)) {
        push(l, TOKEN_VALUE, "", 0)->value = value_float(strtod(digits, &end));
    } else {
        integer = strtoll(digits, &end, !strncmp(digits, "0x", 2) ? 16 : 10);
        push(l, TOKEN_VALUE, "", 0)->value = value_int(integer);
    }
    if (*end || errno) work_fail(l->w, "%s is no number, or one beyond 64 bits", digits);
    move(l, n);
}

static void lex_sign(Lexer *l) {
    static const char *const two[] = {"==", "!=", ">=", "<=", "//", "**"};
    for (size_t i = 0; i < COUNTOF(two); i++)
        if (follows(l, two[i])) {
            push(l, TOKEN_SIGN, l->at, 2);
            move(l, 2);
            return;
        }
    if (!strchr("+-/*%~[](){}><=.:|,;", *l->at))
        work_fail(l->w, "unexpected character %.*s", (int)MAX(utf8_char_length(l->at, (size_t)(l->end - l->at)), 1),
                  l->at);
    push(l, TOKEN_SIGN, l->at, 1);
    move(l, 1);
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
    push(l, *bracket == '%' ? TOKEN_BLOCK_END : TOKEN_PRINT_END, bracket, 2);
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
        } else if (kind == '{') {
            push(&l, TOKEN_PRINT, tag, 2);
            lex_tag(&l, "}}");
        } else if (!take_raw(&l)) {
            push(&l, TOKEN_BLOCK, tag, 2);
            lex_tag(&l, "%}");
        }
    }
    push_data(&l, l.at, l.end, 0, false);
    push(&l, TOKEN_END, "", 0);
    return l.tokens;
}
