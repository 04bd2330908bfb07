/* Grammars in GBNF, as llama.cpp reads them: rules `name ::= ...`, from `root` on, of "texts", [classes], ., names and
 * groups, with | and * + ? {n} {n,} {,m} {n,m}; # begins a comment. A rule ends with its line, unless a group is open
 * or a | ends it. What begins with itself is refused by graph_finish. */
#include "server/form/graph.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS = 100, CLASS_RANGES = 512, MOST_REPEATS = 65535 };

typedef struct Rule {
    const char *name; /* [length], in the text */
    int length, node;
    bool defined;
} Rule;

typedef struct Grammar {
    Form *form;
    const char *text;
    size_t at, n;
    int depth, n_rules;
    Rule *rules; /* [GRAPH_NAMES] */
    GraphParts parts;
    FormError *error;
} Grammar;

static int fail(const Grammar *g, size_t at, const char *what) {
    int line = 1;
    for (size_t i = 0; i < at; i++) line += g->text[i] == '\n';
    return form_fail(g->error, "%s (line %d, byte %zu of the grammar)", what, line, at);
}

static int peek(const Grammar *g) { return g->at < g->n ? (unsigned char)g->text[g->at] : -1; }

static bool accept(Grammar *g, const char *text) {
    size_t n = strlen(text);
    if (g->n - g->at < n || memcmp(g->text + g->at, text, n) != 0) return false;
    g->at += n;
    return true;
}

static void skip_space(Grammar *g, bool lines) {
    for (;; g->at++) {
        while (peek(g) == '#')
            while (peek(g) >= 0 && peek(g) != '\n') g->at++;
        int b = peek(g);
        if (b != ' ' && b != '\t' && !(lines && (b == '\n' || b == '\r'))) return;
    }
}

/* ---- names ---- */

static bool is_name_byte(int b) {
    return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') || b == '-' || b == '_';
}

static int name_length(const Grammar *g) {
    size_t end = g->at;
    while (end < g->n && is_name_byte((unsigned char)g->text[end])) end++;
    return (int)(end - g->at);
}

/* The rule of that name, told already or not; NULL when there are too many. */
static Rule *rule_named(Grammar *g, const char *name, int length) {
    for (Rule *r = g->rules; r < g->rules + g->n_rules; r++)
        if (r->length == length && !memcmp(r->name, name, (size_t)length)) return r;
    if (g->n_rules == GRAPH_NAMES) {
        fail(g, g->at, "there are too many rules");
        return NULL;
    }
    g->rules[g->n_rules] = (Rule){.name = name, .length = length, .node = graph_name(g->form)};
    return &g->rules[g->n_rules++];
}

/* ---- texts and classes ---- */

static int hex(Grammar *g, int digits, uint32_t *c) {
    for (*c = 0; digits > 0; digits--, g->at++) {
        int b = peek(g), low = b | 32;
        if (b >= '0' && b <= '9')
            *c = *c * 16 + (uint32_t)(b - '0');
        else if (low >= 'a' && low <= 'f')
            *c = *c * 16 + (uint32_t)(low - 'a' + 10);
        else
            return fail(g, g->at, "hexadecimal digits are missing");
    }
    return *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000) ? fail(g, g->at, "this is no code point") : 0;
}

/* One code point, escaped or as it stands; the grammar is UTF-8. */
static int take_char(Grammar *g, uint32_t *c) {
    static const char names[] = "nrt\"\\[]-^", values[] = "\n\r\t\"\\[]-^";
    size_t length = utf8_char_length(g->text + g->at, g->n - g->at), start = g->at;
    if (!accept(g, "\\")) {
        *c = utf8_get(g->text + g->at, length);
        g->at += length;
        return 0;
    }
    int b = peek(g);
    const char *known = b > 0 ? strchr(names, b) : NULL;
    g->at++;
    if (known) return *c = (unsigned char)values[known - names], 0;
    if (b == 'x') return hex(g, 2, c);
    if (b == 'u') return hex(g, 4, c);
    if (b == 'U') return hex(g, 8, c);
    return fail(g, start, "there is no such escape");
}

static int quoted(Grammar *g) {
    int start = g->parts.n;
    size_t begin = g->at++;
    while (!accept(g, "\"")) {
        uint32_t c;
        char bytes[4];
        if (peek(g) < 0 || peek(g) == '\n') return fail(g, begin, "a text without its second \"");
        if (take_char(g, &c)) return -1;
        graph_part(g->form, &g->parts, graph_text(g->form, bytes, utf8_put(c, bytes)));
    }
    return graph_join(g->form, &g->parts, start);
}

static int bracket(Grammar *g) {
    Range ranges[CLASS_RANGES];
    int n = 0;
    size_t begin = g->at++;
    bool negated = accept(g, "^");
    while (!accept(g, "]")) {
        if (peek(g) < 0 || n == CLASS_RANGES)
            return fail(g, begin, n == CLASS_RANGES ? "the class has too many parts" : "a class without ]");
        if (take_char(g, &ranges[n].low)) return -1;
        ranges[n].high = ranges[n].low;
        bool range = peek(g) == '-' && g->at + 1 < g->n && g->text[g->at + 1] != ']';
        g->at += range;
        if (range && take_char(g, &ranges[n].high)) return -1;
        if (ranges[n].low > ranges[n].high) return fail(g, begin, "a range ends before it begins");
        n++;
    }
    return graph_class(g->form, ranges, n, negated);
}

/* ---- rules ---- */

static int alternatives(Grammar *g);

static int group(Grammar *g) {
    size_t begin = g->at++;
    if (++g->depth > GROUPS) return fail(g, begin, "groups are nested too deep");
    int inner = alternatives(g);
    g->depth--;
    if (inner < 0) return -1;
    return accept(g, ")") ? inner : fail(g, begin, "a group without )");
}

static int item(Grammar *g) {
    int length = name_length(g);
    if (peek(g) == '"') return quoted(g);
    if (peek(g) == '[') return bracket(g);
    if (peek(g) == '(') return group(g);
    if (accept(g, ".")) return graph_range(g->form, 0, 0x10FFFF);
    if (length == 0) return fail(g, g->at, "a text, a class, a group or a name must stand here");
    const Rule *r = rule_named(g, g->text + g->at, length);
    g->at += (size_t)length;
    return r ? r->node : -1;
}

static bool number(Grammar *g, int *value) {
    size_t start = g->at;
    for (*value = 0; peek(g) >= '0' && peek(g) <= '9'; g->at++)
        *value = MIN(*value * 10 + peek(g) - '0', MOST_REPEATS + 1);
    return g->at > start;
}

static int repeated(Grammar *g, int node) {
    size_t start = g->at;
    int low = 0, high = GRAPH_ENDLESS;
    if (accept(g, "+")) {
        low = 1;
    } else if (accept(g, "?")) {
        high = 1;
    } else if (accept(g, "{")) {
        bool first = number(g, &low), comma = accept(g, ",");
        if (!first && !comma) return fail(g, start, "a repetition is {n}, {n,}, {,m} or {n,m}");
        if (!comma)
            high = low;
        else if (!number(g, &high))
            high = GRAPH_ENDLESS;
        if (!accept(g, "}")) return fail(g, start, "a repetition is {n}, {n,}, {,m} or {n,m}");
    } else if (!accept(g, "*")) {
        return node;
    }
    if (low > MOST_REPEATS || high > MOST_REPEATS)
        return fail(g, start, "it is repeated too often: 65535 times at most");
    if (high != GRAPH_ENDLESS && low > high) return fail(g, start, "the numbers are out of order");
    return graph_repeat(g->form, node, low, high);
}

static int sequence(Grammar *g) {
    int start = g->parts.n;
    for (;;) {
        skip_space(g, g->depth > 0);
        int b = peek(g);
        if (b < 0 || b == '|' || b == ')' || b == '\n' || b == '\r') return graph_join(g->form, &g->parts, start);
        int one = item(g);
        skip_space(g, g->depth > 0);
        if (one >= 0) one = repeated(g, one);
        if (one < 0) return -1;
        graph_part(g->form, &g->parts, one);
    }
}

/* Takes a |, on a line further down too. */
static bool next_alternative(Grammar *g) {
    size_t start = g->at;
    skip_space(g, true);
    if (accept(g, "|")) return true;
    g->at = start;
    return false;
}

static int alternatives(Grammar *g) {
    int all = sequence(g);
    while (all >= 0 && next_alternative(g)) {
        skip_space(g, true);
        int next = sequence(g);
        all = next < 0 ? -1 : graph_either(g->form, all, next);
    }
    return all;
}

static int rule(Grammar *g) {
    int length = name_length(g);
    size_t begin = g->at;
    if (length == 0) return fail(g, begin, "a rule must begin here with its name");
    Rule *r = rule_named(g, g->text + g->at, length);
    if (!r) return -1;
    g->at += (size_t)length;
    skip_space(g, false);
    if (!accept(g, "::=")) return fail(g, g->at, "::= must stand behind a rule's name");
    if (r->defined) return fail(g, begin, "the rule is there already");
    skip_space(g, true);
    int node = alternatives(g);
    if (node < 0) return -1;
    if (peek(g) == ')') return fail(g, g->at, "a ) without (");
    r->defined = true;
    graph_define(g->form, r->node, node);
    return 0;
}

static int read_rules(Grammar *g) {
    for (skip_space(g, true); g->at < g->n; skip_space(g, true))
        if (rule(g)) return -1;
    for (const Rule *r = g->rules; r < g->rules + g->n_rules; r++)
        if (!r->defined) return form_fail(g->error, "there is no rule \"%.*s\"", MIN(r->length, 60), r->name);
    const Rule *root = rule_named(g, "root", 4);
    return root && root->defined ? root->node : form_fail(g->error, "there is no rule \"root\"");
}

Form *form_of_grammar(const char *text, size_t n, FormError *e) {
    *e = (FormError){.path = ""};
    Grammar g = {.form = graph_new(), .text = text, .n = n, .error = e};
    g.rules = g.form ? try_malloc(GRAPH_NAMES * sizeof *g.rules) : NULL;
    int root = -1;
    if (!g.rules)
        form_no_memory(e);
    else if (!utf8_is_valid(text, n))
        fail(&g, utf8_valid_prefix(text, n), "this is no UTF-8");
    else
        root = read_rules(&g);
    free(g.rules);
    graph_parts_free(&g.parts);
    if (root >= 0) return graph_finish(g.form, root, e);
    form_release(g.form);
    return NULL;
}
