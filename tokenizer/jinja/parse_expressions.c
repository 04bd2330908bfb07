#include "tokenizer/jinja/parser.h"

#include "base/err.h"
#include "tokenizer/jinja/text.h"

#include <string.h>

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
    work_fail(p->w, "\"%.*s\" where %s should be", (int)MIN(t->text.n, 40), t->text.data, wanted);
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

/* Elements up to `close`, each of them parsed by `element`, which may make several. */
static Node *parse_list(Parser *p, const char *close, Node *(*element)(Parser *p), bool *comma) {
    Node *first = NULL, **end = &first;
    *comma = false;
    while (!parser_takes(p, close)) {
        if (first && !*comma) parser_fail(p, close);
        *end = element(p);
        while (*end) end = &(*end)->next;
        *comma = parser_takes(p, ",");
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

static Node *parse_arguments(Parser *p) {
    bool comma;
    Node *all = parse_list(p, ")", parse_argument, &comma);
    for (const Node *n = all; n && n->next; n = n->next)
        if (n->kind == NODE_ARGUMENT && n->next->kind != NODE_ARGUMENT) parser_fail(p, "an argument by name");
    return all;
}

static Node *parse_brackets(Parser *p) {
    bool comma, round = parser_is(p, "("), square = parser_is(p, "[");
    Node *n = parser_node(p, round ? NODE_TUPLE : square ? NODE_LIST : NODE_DICT);
    if (!round && !square && !parser_is(p, "{")) parser_fail(p, "an expression");
    p->at++;
    n->list = parse_list(p,
                         round    ? ")"
                         : square ? "]"
                                  : "}",
                         n->kind == NODE_DICT ? parse_pair : parse_expression, &comma);
    return round && n->list && !comma && !n->list->next ? n->list : n;
}

static Node *parse_constant(Parser *p) {
    Node *n = parser_node(p, NODE_CONST);
    n->value = p->at++->value;
    if (n->value.kind != VALUE_TEXT || p->at->kind != TOKEN_VALUE) return n;
    Builder b = {0}; /* strings side by side are one */
    build(p->w, &b, n->value.text);
    for (; p->at->kind == TOKEN_VALUE && p->at->value.kind == VALUE_TEXT; p->at++) build(p->w, &b, p->at->value.text);
    n->value = value_text(built(&b));
    return n;
}

Node *parse_primary(Parser *p) {
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    if (p->at->kind == TOKEN_VALUE) return parse_constant(p);
    if (p->at->kind != TOKEN_NAME) return parse_brackets(p);
    Node *n = parser_node(p, NODE_NAME);
    n->name = parser_name(p);
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (text_is(n->name, words[i])) {
            n->kind = NODE_CONST;
            n->value = i < 4 ? value_bool(i < 2) : value_none();
        }
    return n;
}

/* ---- what stands behind them ---- */

static Node *parse_subscript(Parser *p, Node *of) {
    Node *n = node_of(p, NODE_ITEM, of, NULL), **part[] = {&n->b, &n->c, &n->list};
    size_t i = 0;
    if (!parser_is(p, ":")) n->b = parse_tuple(p, parse_expression);
    for (; i < 2 && parser_takes(p, ":"); i++)
        if (!parser_is(p, ":") && !parser_is(p, "]")) *part[i + 1] = parse_expression(p);
    if (i) n->kind = NODE_SLICE;
    parser_wants(p, "]");
    return n;
}

Node *parse_postfix(Parser *p, Node *of) {
    for (;;)
        if (parser_takes(p, ".")) {
            bool place = p->at->kind == TOKEN_VALUE && p->at->value.kind == VALUE_INTEGER;
            of = node_of(p, place ? NODE_ITEM : NODE_ATTRIBUTE, of, NULL);
            if (place)
                of->b = parse_constant(p);
            else
                of->name = parser_name(p);
        } else if (parser_takes(p, "[")) {
            of = parse_subscript(p, of);
        } else if (parser_takes(p, "(")) {
            of = node_of(p, NODE_CALL, of, NULL);
            of->list = parse_arguments(p);
        } else {
            return of;
        }
}

static Node *parse_filter(Parser *p, Node *of) {
    Node *n = parser_node(p, NODE_FILTER);
    n->a = of;
    n->name = parser_name(p);
    n->builtin = filter_named(n->name);
    if (!n->builtin) {
        p->at--;
        parser_fail(p, "a filter");
    }
    if (parser_takes(p, "(")) n->list = parse_arguments(p);
    return n;
}

Node *parse_filters(Parser *p, Node *of) {
    while (parser_takes(p, "|")) of = parse_filter(p, of);
    return of;
}

/* An argument of a test needs no brackets. */
static bool argument_follows(const Parser *p) {
    static const char *const ends[] = {"else", "or", "and", "is", "if", "in", "not"};
    for (size_t i = 0; i < COUNTOF(ends) && p->at->kind == TOKEN_NAME; i++)
        if (parser_is(p, ends[i])) return false;
    return p->at->kind == TOKEN_NAME || p->at->kind == TOKEN_VALUE || parser_is(p, "[") || parser_is(p, "{");
}

static Node *parse_test(Parser *p, Node *of) {
    bool not_so = parser_takes(p, "not");
    Node *n = node_of(p, NODE_TEST, of, NULL);
    n->name = parser_name(p);
    n->builtin = test_named(n->name);
    if (!n->builtin) {
        p->at--;
        parser_fail(p, "a test");
    }
    if (parser_takes(p, "("))
        n->list = parse_arguments(p);
    else if (argument_follows(p))
        n->list = parse_postfix(p, parse_primary(p));
    return not_so ? node_of(p, NODE_NOT, n, NULL) : n;
}

static Node *parse_unary(Parser *p, bool filtered) {
    Node *n;
    work_enter(p->w);
    if (parser_takes(p, "-"))
        n = node_of(p, NODE_NEGATIVE, parse_unary(p, false), NULL);
    else if (parser_takes(p, "+"))
        n = node_of(p, NODE_POSITIVE, parse_unary(p, false), NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    while (filtered)
        if (parser_is(p, "|"))
            n = parse_filters(p, n);
        else if (parser_takes(p, "is"))
            n = parse_test(p, n);
        else if (parser_is(p, "("))
            n = parse_postfix(p, n);
        else
            break;
    p->w->depth--;
    return n;
}

/* ---- operators, those that bind closest first ---- */

static Node *parse_binary(Parser *p, int level) {
    static const char *const signs[][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == COUNTOF(signs)) return parse_unary(p, true);
    Node *n = parse_binary(p, level + 1);
    for (size_t i = 0; i < 4 && signs[level][i];) {
        const Token *sign = p->at;
        if (!parser_takes(p, signs[level][i++])) continue;
        n = node_of(p, NODE_BINARY, n, parse_binary(p, level + 1));
        n->op = (unsigned char)*sign->text.data + (sign->text.n == 2) * 128;
        i = 0;
    }
    return n;
}

static Node *parse_compare(Parser *p) {
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">", "in", "not"};
    Node *n = parse_binary(p, 0), *all = NULL, **end = NULL;
    for (size_t i = 0; i < COUNTOF(signs);) {
        const Token *sign = p->at;
        bool not_in = i == 7 && p->at[1].kind == TOKEN_NAME && text_is(p->at[1].text, "in");
        if ((i == 7 && !not_in) || !parser_takes(p, signs[i])) {
            i++;
            continue;
        }
        p->at += not_in;
        if (!all) {
            all = node_of(p, NODE_COMPARE, n, NULL);
            end = &all->list;
        }
        *end = node_of(p, NODE_OPERAND, parse_binary(p, 0), NULL);
        (*end)->op = (unsigned char)*sign->text.data + (i < 4) * 128;
        end = &(*end)->next;
        i = 0;
    }
    return all ? all : n;
}

static Node *parse_not(Parser *p) {
    if (!parser_takes(p, "not")) return parse_compare(p);
    work_enter(p->w);
    Node *n = node_of(p, NODE_NOT, parse_not(p), NULL);
    p->w->depth--;
    return n;
}

static Node *parse_and(Parser *p) {
    Node *n = parse_not(p);
    while (parser_takes(p, "and")) n = node_of(p, NODE_AND, n, parse_not(p));
    return n;
}

Node *parse_condition(Parser *p) {
    Node *n = parse_and(p);
    while (parser_takes(p, "or")) n = node_of(p, NODE_OR, n, parse_and(p));
    return n;
}

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
    while (parser_takes(p, ",")) {
        if (p->at->kind == TOKEN_BLOCK_END || p->at->kind == TOKEN_PRINT_END || parser_is(p, "=") || parser_is(p, "in"))
            break;
        last = last->next = element(p);
    }
    return n;
}
