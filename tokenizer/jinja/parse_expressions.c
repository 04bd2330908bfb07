#include "tokenizer/jinja/parser.h"

#include "base/err.h"
#include "tokenizer/jinja/text.h"

/* ---- tokens ---- */

bool parser_is(const Parser *p, const char *text) {
    return (p->at->kind == TOKEN_NAME || p->at->kind == TOKEN_SIGN) && text_is(p->at->text, text);
}

bool parser_takes(Parser *p, const char *text) {
    bool is = parser_is(p, text);
    p->at += is;
    return is;
}

void parser_fail(const Parser *p, const char *wanted) {
    const Token *t = p->at;
    p->w->line = t->line;
    if (t->kind == TOKEN_END) work_fail(p->w, "the template ends where %s should be", wanted);
    if (t->kind == TOKEN_VALUE) work_fail(p->w, "a constant where %s should be", wanted);
    work_fail(p->w, "\"%.*s\" where %s should be", SHOWN(t->text), wanted);
}

void parser_wants(Parser *p, const char *text) {
    if (!parser_takes(p, text)) parser_fail(p, text);
}

MarkedText parser_name(Parser *p) {
    if (p->at->kind != TOKEN_NAME) parser_fail(p, "a name");
    return p->at++->text;
}

Node *parser_node(const Parser *p, NodeKind kind) {
    Node *n = work_take(p->w, sizeof *n);
    n->kind = kind;
    n->line = p->at->line;
    return n;
}

static Node *node_of(const Parser *p, NodeKind kind, Node *a, Node *b) {
    Node *n = parser_node(p, kind);
    n->a = a;
    n->b = b;
    n->line = a->line;
    return n;
}

/* ---- primaries ---- */

Node *parse_list(Parser *p, const char *close, Node *(*element)(Parser *p)) {
    Node *first = NULL, **end = &first;
    while (!parser_takes(p, close)) {
        *end = element(p);
        while (*end) end = &(*end)->next;
        if (!parser_is(p, close)) parser_wants(p, ",");
    }
    return first;
}

static Node *parse_pair(Parser *p) {
    Node *key = parse_expression(p);
    parser_wants(p, ":");
    key->next = parse_expression(p);
    return key;
}

static Node *parse_argument(Parser *p) {
    bool named = p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_SIGN && text_is(p->at[1].text, "=");
    bool several = !named && parser_takes(p, "*");
    if (!named && !several) return parse_expression(p);
    Node *n = parser_node(p, several ? NODE_SEVERAL : NODE_ARGUMENT);
    if (named) n->name = parser_name(p);
    p->at += named;
    n->a = parse_expression(p);
    return n;
}

static Node *parse_arguments(Parser *p) { return parse_list(p, ")", parse_argument); }

/* Strings side by side are one. */
static Node *parse_constant(Parser *p) {
    Node *n = parser_node(p, NODE_CONST);
    n->value = p->at++->value;
    if (n->value.kind != VALUE_TEXT) return n;
    for (; p->at->kind == TOKEN_VALUE && p->at->value.kind == VALUE_TEXT; p->at++)
        n->value.text = text_joined(p->w, n->value.text, p->at->value.text);
    return n;
}

static Node *parse_name(Parser *p) {
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    Node *n = parser_node(p, NODE_NAME);
    n->name = parser_name(p);
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (text_is(n->name, words[i])) {
            n->kind = NODE_CONST;
            n->value = i < 4 ? value_bool(i < 2) : value_none();
            return n;
        }
    dict_put(p->w, p->names, n->name, value_none());
    return n;
}

/* Between brackets, which are a list's, a dict's, a tuple's with a comma, or hold one expression together. */
static Node *parse_brackets(Parser *p) {
    bool list = parser_is(p, "["), dict = parser_is(p, "{");
    Node *n = parser_node(p, list ? NODE_LIST : dict ? NODE_DICT : NODE_TUPLE);
    if (!list && !dict && !parser_is(p, "(")) parser_fail(p, "an expression");
    p->at++;
    n->list = dict ? parse_list(p, "}", parse_pair) : parse_list(p, list ? "]" : ")", parse_expression);
    bool one = !list && !dict && n->list && !n->list->next && !text_is(p->at[-2].text, ",");
    return one ? n->list : n;
}

static Node *parse_primary(Parser *p) {
    if (p->at->kind == TOKEN_VALUE) return parse_constant(p);
    return p->at->kind == TOKEN_NAME ? parse_name(p) : parse_brackets(p);
}

/* ---- what stands behind them ---- */

static Node *parse_subscript(Parser *p, Node *of) {
    Node *n = node_of(p, NODE_ITEM, of, NULL), **part[] = {&n->b, &n->c, &n->list};
    size_t i = 0;
    if (!parser_is(p, ":")) n->b = parse_expression(p);
    for (; i < 2 && parser_takes(p, ":"); i++)
        if (!parser_is(p, ":") && !parser_is(p, "]")) *part[i + 1] = parse_expression(p);
    if (i) n->kind = NODE_SLICE;
    parser_wants(p, "]");
    return n;
}

/* .name [key] (arguments) */
static Node *parse_postfix(Parser *p, Node *of) {
    for (;;)
        if (parser_takes(p, ".")) {
            bool place = p->at->kind == TOKEN_VALUE && p->at->value.kind == VALUE_INTEGER;
            of = place ? node_of(p, NODE_ITEM, of, parse_constant(p)) : node_of(p, NODE_ATTRIBUTE, of, NULL);
            if (!place) of->name = parser_name(p);
        } else if (parser_takes(p, "[")) {
            of = parse_subscript(p, of);
        } else if (parser_takes(p, "(")) {
            of = node_of(p, NODE_CALL, of, NULL);
            of->list = parse_arguments(p);
        } else {
            return of;
        }
}

/* A name of the table's, with its arguments in brackets if there are any. */
static Node *parse_builtin(Parser *p, Node *of, const Builtin *table, const char *wanted) {
    Node *n = node_of(p, NODE_BUILTIN, of, NULL);
    n->builtin = p->at->kind == TOKEN_NAME ? builtin_named(table, p->at->text, 0) : NULL;
    if (!n->builtin) parser_fail(p, wanted);
    n->line = p->at++->line;
    if (parser_takes(p, "(")) n->list = parse_arguments(p);
    return n;
}

/* An argument of a test needs no brackets. */
static bool argument_follows(const Parser *p) {
    static const char *const ends[] = {"else", "or", "and", "is", "if", "in", "not"};
    for (size_t i = 0; i < COUNTOF(ends); i++)
        if (parser_is(p, ends[i])) return false;
    return p->at->kind == TOKEN_NAME || p->at->kind == TOKEN_VALUE || parser_is(p, "[") || parser_is(p, "{");
}

static Node *parse_test(Parser *p, Node *of) {
    bool not_so = parser_takes(p, "not");
    Node *n = parse_builtin(p, of, jinja_tests, "a test");
    if (!n->list && argument_follows(p)) n->list = parse_postfix(p, parse_primary(p));
    return not_so ? node_of(p, NODE_NOT, n, NULL) : n;
}

static Node *parse_signed(Parser *p) {
    work_enter(p->w);
    Node *n = parser_takes(p, "-") ? node_of(p, NODE_NEGATIVE, parse_signed(p), NULL) : parse_primary(p);
    p->w->depth--;
    return parse_postfix(p, n);
}

static Node *parse_filtered(Parser *p) {
    Node *n = parse_signed(p);
    for (;;)
        if (parser_takes(p, "|"))
            n = parse_builtin(p, n, jinja_filters, "a filter");
        else if (parser_takes(p, "is"))
            n = parse_test(p, n);
        else
            return n;
}

/* ---- operators ---- */

enum { LEVEL_OR = 1, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_ADD, LEVEL_JOIN, LEVEL_MULTIPLY };

typedef struct Sign {
    const char *text;
    Operator op;
    int level; /* those of a higher one bind closer */
} Sign;

static const Sign signs[] = {
    {"or", OP_OR, LEVEL_OR},           {"and", OP_AND, LEVEL_AND},         {"not", OP_NOT_IN, LEVEL_COMPARE},
    {"in", OP_IN, LEVEL_COMPARE},      {"==", OP_EQUAL, LEVEL_COMPARE},    {"!=", OP_UNEQUAL, LEVEL_COMPARE},
    {"<=", OP_AT_MOST, LEVEL_COMPARE}, {">=", OP_AT_LEAST, LEVEL_COMPARE}, {"<", OP_LESS, LEVEL_COMPARE},
    {">", OP_GREATER, LEVEL_COMPARE},  {"+", OP_ADD, LEVEL_ADD},           {"-", OP_SUBTRACT, LEVEL_ADD},
    {"~", OP_JOIN, LEVEL_JOIN},        {"*", OP_MULTIPLY, LEVEL_MULTIPLY}, {"/", OP_DIVIDE, LEVEL_MULTIPLY},
    {"//", OP_FLOOR, LEVEL_MULTIPLY},  {"%", OP_MODULO, LEVEL_MULTIPLY},
};

/* The operator that is next, when it binds closer than `above`. */
static const Sign *take_sign(Parser *p, int above) {
    for (size_t i = 0; i < COUNTOF(signs); i++) {
        if (signs[i].level <= above || !parser_takes(p, signs[i].text)) continue;
        if (signs[i].op == OP_NOT_IN) parser_wants(p, "in");
        return &signs[i];
    }
    return NULL;
}

/* Operands and the operators between them that bind closer than `above`. */
static Node *parse_operators(Parser *p, int above) {
    bool compared = false;
    Node *n;
    work_enter(p->w);
    if (above < LEVEL_NOT && parser_takes(p, "not"))
        n = node_of(p, NODE_NOT, parse_operators(p, LEVEL_NOT - 1), NULL);
    else
        n = parse_filtered(p);
    for (const Sign *sign; (sign = take_sign(p, above));) {
        if (sign->level == LEVEL_COMPARE && compared) work_fail(p->w, "one comparison behind another needs brackets");
        n = node_of(p, NODE_BINARY, n, parse_operators(p, sign->level));
        n->op = sign->op;
        compared = sign->level == LEVEL_COMPARE;
    }
    p->w->depth--;
    return n;
}

Node *parse_condition(Parser *p) { return parse_operators(p, 0); }

Node *parse_expression(Parser *p) {
    Node *n = parse_condition(p);
    while (parser_takes(p, "if")) {
        Node *choice = node_of(p, NODE_CHOICE, parse_condition(p), n);
        work_enter(p->w);
        if (parser_takes(p, "else")) choice->c = parse_expression(p);
        p->w->depth--;
        n = choice;
    }
    return n;
}

Node *parse_tuple(Parser *p, Node *(*element)(Parser *p)) {
    Node *first = element(p), *last = first;
    if (!parser_is(p, ",")) return first;
    Node *n = parser_node(p, NODE_TUPLE);
    n->list = first;
    while (parser_takes(p, ",")) last = last->next = element(p);
    return n;
}
