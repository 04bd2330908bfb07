#include "server/form/regex.h"

#include "base/utf8.h"

#include <string.h>

enum { GROUPS = 100, CLASS_RANGES = 512, MOST_REPEATS = 65535 };

typedef struct Regex {
    Form *form;
    const char *text;
    size_t at, n;
    int depth;
    GraphParts parts;
    RegexClass class;
    FormError *error;
} Regex;

static int fail(Regex *r, size_t at, const char *what) {
    return form_fail(r->error, "%s (byte %zu of the pattern)", what, at);
}

static int peek(const Regex *r, size_t ahead) {
    return r->at + ahead < r->n ? (unsigned char)r->text[r->at + ahead] : -1;
}

static bool accept(Regex *r, const char *text) {
    size_t n = strlen(text);
    if (r->n - r->at < n || memcmp(r->text + r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

/* ---- code points and classes ---- */

typedef struct Set {
    Range ranges[CLASS_RANGES + 2];
    int n;
} Set;

static const Range digits[] = {{'0', '9'}}, words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const Range spaces[] = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                               {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                               {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const Range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static int set_add(Regex *r, Set *s, const Range *ranges, int n) {
    if (s->n + n > CLASS_RANGES) return fail(r, r->at, "the class has too many parts");
    memcpy(s->ranges + s->n, ranges, (size_t)n * sizeof *ranges);
    s->n += n;
    return 0;
}

/* d, w, s or their opposites; false for other letters. *rc is -1 where there is no room for it. */
static bool named_class(Regex *r, int letter, Set *s, int *rc) {
    static const struct {
        char letter;
        const Range *ranges;
        int n;
    } names[] = {{'d', digits, COUNTOF(digits)}, {'w', words, COUNTOF(words)}, {'s', spaces, COUNTOF(spaces)}};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Range others[COUNTOF(spaces) + 2];
        if (letter == names[i].letter) *rc = set_add(r, s, names[i].ranges, names[i].n);
        if (letter == names[i].letter - 'a' + 'A')
            *rc = set_add(r, s, others, ranges_negate(names[i].ranges, names[i].n, others));
        if ((letter | 32) == names[i].letter) return true;
    }
    return false;
}

/* Of `least` to `most` hexadecimal digits. */
static int hex(Regex *r, int least, int most, uint32_t *c) {
    int n = 0;
    for (*c = 0; n < most; n++, r->at++) {
        int b = peek(r, 0), low = b | 32;
        if (b >= '0' && b <= '9')
            *c = *c * 16 + (uint32_t)(b - '0');
        else if (low >= 'a' && low <= 'f')
            *c = *c * 16 + (uint32_t)(low - 'a' + 10);
        else
            break;
    }
    return n < least ? fail(r, r->at, "hexadecimal digits are missing") : 0;
}

static int hex_escape(Regex *r, int letter, uint32_t *c) {
    size_t start = r->at;
    uint32_t second;
    if (accept(r, "{")) {
        if (hex(r, 1, 6, c)) return -1;
        if (!accept(r, "}")) return fail(r, r->at, "} is missing");
    } else if (hex(r, letter == 'x' ? 2 : 4, letter == 'x' ? 2 : 4, c)) {
        return -1;
    } else if (*c >= 0xD800 && *c < 0xDC00 && accept(r, "\\u")) {
        if (hex(r, 4, 4, &second)) return -1;
        if (second >= 0xDC00 && second < 0xE000) *c = 0x10000 + ((*c - 0xD800) << 10) + (second - 0xDC00);
    }
    if (*c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000)) return fail(r, start, "this is no code point");
    return 0;
}

static const char *refused_escape(int letter) {
    if (letter >= '1' && letter <= '9') return "a back reference is not supported";
    switch (letter) {
    case 'k':
    case 'g':
        return "a back reference is not supported";
    case 'b':
    case 'B':
        return "\\b and \\B look around: they are not supported";
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
        return "the anchors are ^ and $ alone";
    case 'p':
    case 'P':
        return "Unicode's properties are not supported";
    default:
        return "there is no such escape";
    }
}

/* Behind a backslash: one code point. */
static int escape(Regex *r, bool in_class, uint32_t *c) {
    static const char letters[] = "tnrfv0", values[] = "\t\n\r\f\v";
    size_t start = r->at;
    int b = peek(r, 0);
    const char *known = b > 0 ? strchr(letters, b) : NULL;
    if (b < 0) return fail(r, start, "the pattern ends behind a backslash");
    r->at++;
    if (known) {
        *c = (unsigned char)values[known - letters];
        if (b == '0' && peek(r, 0) >= '0' && peek(r, 0) <= '9') return fail(r, start, "there is no such escape");
        return 0;
    }
    if (b == 'x' || b == 'u') return hex_escape(r, b, c);
    if (b == 'c' && (peek(r, 0) | 32) >= 'a' && (peek(r, 0) | 32) <= 'z') {
        *c = (uint32_t)r->text[r->at++] & 31;
        return 0;
    }
    if (in_class && b == 'b') {
        *c = '\b';
        return 0;
    }
    if (b < 128 && !((b | 32) >= 'a' && (b | 32) <= 'z') && !(b >= '0' && b <= '9')) {
        *c = (uint32_t)b;
        return 0;
    }
    return fail(r, start, refused_escape(b));
}

/* One code point as it stands; the pattern is UTF-8. */
static uint32_t take_char(Regex *r) {
    size_t n = utf8_char_length(r->text + r->at, r->n - r->at);
    uint32_t c = utf8_get(r->text + r->at, n);
    r->at += n;
    return c;
}

/* One end of a range, or a named class, which is added: *whole. */
static int class_atom(Regex *r, Set *s, uint32_t *c, bool *whole) {
    int rc = 0;
    *whole = false;
    if (peek(r, 0) == '[' && (peek(r, 1) == ':' || peek(r, 1) == '.' || peek(r, 1) == '='))
        return fail(r, r->at, "POSIX classes are not supported");
    if (peek(r, 0) != '\\') {
        *c = take_char(r);
        return 0;
    }
    r->at++;
    *whole = named_class(r, peek(r, 0), s, &rc);
    if (!*whole) return escape(r, true, c);
    r->at++;
    return rc;
}

static int node_of(Regex *r, const Range *ranges, int n) {
    return r->class ? r->class(r->form, ranges, n) : graph_class(r->form, ranges, n, false);
}

static int node_of_set(Regex *r, Set *s, bool negated) {
    Range others[CLASS_RANGES + 4];
    s->n = ranges_normalise(s->ranges, s->n);
    if (negated) return node_of(r, others, ranges_negate(s->ranges, s->n, others));
    return node_of(r, s->ranges, s->n);
}

static int bracket(Regex *r) {
    Set s = {.n = 0};
    size_t start = r->at - 1;
    bool negated = accept(r, "^");
    if (peek(r, 0) == ']') return fail(r, start, "an empty class is not supported");
    while (!accept(r, "]")) {
        uint32_t low, high;
        bool whole, second;
        if (r->at == r->n) return fail(r, start, "a class without ]");
        if (class_atom(r, &s, &low, &whole)) return -1;
        if (!(peek(r, 0) == '-' && peek(r, 1) >= 0 && peek(r, 1) != ']')) {
            if (!whole && set_add(r, &s, &(Range){low, low}, 1)) return -1;
            continue;
        }
        size_t at = r->at++;
        if (class_atom(r, &s, &high, &second)) return -1;
        if (whole || second || low > high) return fail(r, at, "this is no range");
        if (set_add(r, &s, &(Range){low, high}, 1)) return -1;
    }
    return node_of_set(r, &s, negated);
}

/* ---- atoms, and how often ---- */

static int alternatives(Regex *r);

static int group(Regex *r) {
    static const struct {
        const char *begins, *why;
    } refused[] = {{"?=", "a lookahead is not supported"},       {"?!", "a lookahead is not supported"},
                   {"?<=", "a lookbehind is not supported"},     {"?<!", "a lookbehind is not supported"},
                   {"?>", "an atomic group is not supported"},   {"?C", "a callout is not supported"},
                   {"?#", "a comment is not supported"},         {"?R", "recursion is not supported"},
                   {"?&", "recursion is not supported"},         {"?P>", "recursion is not supported"},
                   {"?P=", "a back reference is not supported"}, {"*", "a verb is not supported"}};
    size_t start = r->at - 1;
    for (size_t i = 0; i < COUNTOF(refused); i++)
        if (accept(r, refused[i].begins)) return fail(r, start, refused[i].why);
    if (accept(r, "?<") || accept(r, "?P<")) {
        while (peek(r, 0) >= 0 && peek(r, 0) != '>') r->at++;
        if (!accept(r, ">")) return fail(r, start, "a group's name without >");
    } else if (!accept(r, "?:") && peek(r, 0) == '?') {
        return fail(r, start, "flags and other kinds of groups are not supported");
    }
    if (++r->depth > GROUPS) return fail(r, start, "groups are nested too deep");
    int inner = alternatives(r);
    r->depth--;
    if (inner >= 0 && !accept(r, ")")) return fail(r, start, "a group without )");
    return inner;
}

static int literal(Regex *r, uint32_t c) {
    char bytes[4];
    return r->class ? r->class(r->form, &(Range){c, c}, 1) : graph_text(r->form, bytes, utf8_put(c, bytes));
}

static int atom(Regex *r) {
    uint32_t c;
    Set s = {.n = 0};
    int rc = 0;
    size_t start = r->at;
    switch (peek(r, 0)) {
    case '(':
        r->at++;
        return group(r);
    case '[':
        r->at++;
        return bracket(r);
    case '.':
        r->at++;
        memcpy(s.ranges, line_ends, sizeof line_ends);
        s.n = COUNTOF(line_ends);
        return node_of_set(r, &s, true);
    case '*':
    case '+':
    case '?':
        return fail(r, start, "there is nothing to repeat");
    case '^':
    case '$':
        return fail(r, start, "^ and $ stand only at the ends of an alternative of the whole pattern");
    case '\\':
        r->at++;
        if (named_class(r, peek(r, 0), &s, &rc)) {
            r->at++;
            return rc ? rc : node_of_set(r, &s, false);
        }
        return escape(r, false, &c) ? -1 : literal(r, c);
    default:
        return literal(r, take_char(r));
    }
}

static bool number(Regex *r, int *value) {
    size_t start = r->at;
    for (*value = 0; peek(r, 0) >= '0' && peek(r, 0) <= '9'; r->at++)
        *value = MIN(*value * 10 + peek(r, 0) - '0', MOST_REPEATS + 1);
    return r->at > start;
}

/* {n}, {n,} or {n,m}; false, and nothing taken, for braces that are text. */
static bool braces(Regex *r, int *low, int *high) {
    size_t start = r->at;
    if (accept(r, "{") && number(r, low)) {
        *high = *low;
        if (accept(r, ",") && !number(r, high)) *high = GRAPH_ENDLESS;
        if (accept(r, "}")) return true;
    }
    r->at = start;
    return false;
}

/* The atom `node`, so many times. */
static int repeated(Regex *r, int node) {
    size_t start = r->at;
    int low = 0, high = GRAPH_ENDLESS;
    if (accept(r, "+"))
        low = 1;
    else if (accept(r, "?"))
        high = 1;
    else if (!accept(r, "*") && !braces(r, &low, &high))
        return node;
    if (low > MOST_REPEATS || high > MOST_REPEATS)
        return fail(r, start, "it is repeated too often: 65535 times at most");
    if (high != GRAPH_ENDLESS && low > high) return fail(r, start, "the numbers are out of order");
    if (peek(r, 0) == '+') return fail(r, r->at, "a possessive quantifier is not supported");
    accept(r, "?");
    if (peek(r, 0) == '*' || peek(r, 0) == '+' || peek(r, 0) == '?' || (peek(r, 0) == '{' && braces(r, &low, &high)))
        return fail(r, r->at, "there is nothing to repeat");
    return graph_repeat(r->form, node, low, high);
}

/* ---- sequences, alternatives ---- */

static bool sequence_ends(const Regex *r) {
    int b = peek(r, 0);
    return b < 0 || b == '|' || (b == ')' && r->depth > 0) ||
           (b == '$' && r->depth == 0 && (peek(r, 1) < 0 || peek(r, 1) == '|'));
}

static int sequence(Regex *r) {
    int start = r->parts.n;
    while (!sequence_ends(r)) {
        if (peek(r, 0) == ')') return fail(r, r->at, "a ) without (");
        int one = atom(r);
        if (one >= 0) one = repeated(r, one);
        if (one < 0) return -1;
        graph_part(r->form, &r->parts, one);
    }
    return graph_join(r->form, &r->parts, start);
}

static int alternatives(Regex *r) {
    int all = sequence(r);
    while (all >= 0 && accept(r, "|")) {
        int next = sequence(r);
        all = next < 0 ? -1 : graph_either(r->form, all, next);
    }
    return all;
}

static int whole(Regex *r, int around) {
    int all = GRAPH_NEVER;
    do {
        bool begins = accept(r, "^");
        int one = sequence(r);
        if (one < 0) return -1;
        bool ends = accept(r, "$");
        one = graph_then(r->form, begins ? GRAPH_EMPTY : around, graph_then(r->form, one, ends ? GRAPH_EMPTY : around));
        all = graph_either(r->form, all, one);
    } while (accept(r, "|"));
    return all;
}

int regex_node(Form *f, const char *pattern, size_t n, bool searched, RegexClass class, int any, FormError *e) {
    Regex r = {.form = f, .text = pattern, .n = n, .class = class, .error = e};
    if (!utf8_is_valid(pattern, n)) return fail(&r, utf8_valid_prefix(pattern, n), "this is no UTF-8");
    int all = whole(&r, searched ? graph_repeat(f, any, 0, GRAPH_ENDLESS) : GRAPH_EMPTY);
    graph_parts_free(&r.parts);
    return all;
}

Form *form_of_regex(const char *pattern, size_t n, FormError *e) {
    *e = (FormError){.path = ""};
    Form *f = graph_new();
    if (!f) return form_no_memory(e);
    int root = regex_node(f, pattern, n, false, NULL, 0, e);
    if (root >= 0) return graph_finish(f, root, e);
    form_release(f);
    return NULL;
}
