#include "tokenizer/jinja/parser.h"

#include "base/err.h"

#include <string.h>

/* Statements up to "{%" and a word that goes on with a block or ends it, which is next. */
static Node *parse_body(Parser *p);

static Node *body_up_to(Parser *p, const char *end) {
    parser_wants(p, "%}");
    Node *body = parse_body(p);
    parser_wants(p, end);
    parser_wants(p, "%}");
    return body;
}

/* What stands behind "else", if there is one, up to the end. */
static Node *parse_else(Parser *p, const char *end) {
    if (parser_takes(p, "else")) return body_up_to(p, end);
    parser_wants(p, end);
    parser_wants(p, "%}");
    return NULL;
}

/* Behind "if" or "elif". */
static Node *parse_if(Parser *p) {
    Node *n = parser_node(p, NODE_IF);
    work_enter(p->w);
    n->a = parse_expression(p);
    parser_wants(p, "%}");
    n->list = parse_body(p);
    n->otherwise = parser_takes(p, "elif") ? parse_if(p) : parse_else(p, "endif");
    p->w->depth--;
    return n;
}

static Node *parse_target(Parser *p) {
    Node *n = parser_node(p, NODE_NAME);
    n->name = parser_name(p);
    if (!parser_takes(p, ".")) return n;
    Node *attribute = parser_node(p, NODE_ATTRIBUTE);
    attribute->a = n;
    attribute->name = parser_name(p);
    return attribute;
}

static Node *parse_for(Parser *p) {
    Node *n = parser_node(p, NODE_FOR);
    n->a = parse_tuple(p, parse_target);
    parser_wants(p, "in");
    n->b = parse_condition(p);
    if (parser_takes(p, "if")) n->c = parse_expression(p);
    parser_wants(p, "%}");
    p->loops++;
    n->list = parse_body(p);
    p->loops--;
    n->otherwise = parse_else(p, "endfor");
    return n;
}

static Node *parse_set(Parser *p) {
    Node *n = parser_node(p, NODE_SET);
    n->a = parse_tuple(p, parse_target);
    if (parser_takes(p, "=")) {
        n->b = parse_tuple(p, parse_expression);
        parser_wants(p, "%}");
    } else {
        n->list = body_up_to(p, "endset");
    }
    return n;
}

/* "name" or "name=default". */
static Node *parse_parameter(Parser *p) {
    Node *n = parser_node(p, NODE_ARGUMENT);
    n->name = parser_name(p);
    if (parser_takes(p, "=")) n->a = parse_expression(p);
    return n;
}

/* Loops outside are not left from inside. */
static Node *parse_macro(Parser *p) {
    Node *n = parser_node(p, NODE_MACRO);
    int loops = p->loops;
    n->name = parser_name(p);
    parser_wants(p, "(");
    n->otherwise = parse_list(p, ")", parse_parameter);
    p->loops = 0;
    n->list = body_up_to(p, "endmacro");
    p->loops = loops;
    return n;
}

static Node *parse_generation(Parser *p) {
    Node *n = parser_node(p, NODE_SCOPE);
    n->list = body_up_to(p, "endgeneration");
    return n;
}

static Node *parse_jump(Parser *p) {
    Node *n = parser_node(p, text_is(p->at[-1].text, "break") ? NODE_BREAK : NODE_CONTINUE);
    if (p->loops == 0) work_fail(p->w, "%.*s outside of a loop", SHOWN(p->at[-1].text));
    parser_wants(p, "%}");
    return n;
}

/* Behind "{%". */
static Node *parse_block(Parser *p) {
    static const struct {
        const char *name;
        Node *(*parse)(Parser *p);
    } blocks[] = {{"if", parse_if},
                  {"for", parse_for},
                  {"set", parse_set},
                  {"macro", parse_macro},
                  {"break", parse_jump},
                  {"continue", parse_jump},
                  {"generation", parse_generation}};
    for (size_t i = 0; i < COUNTOF(blocks); i++)
        if (parser_takes(p, blocks[i].name)) return blocks[i].parse(p);
    parser_fail(p, "a statement");
}

/* Behind "{{". */
static Node *parse_print(Parser *p) {
    Node *n = parser_node(p, NODE_PRINT);
    n->a = parse_expression(p);
    parser_wants(p, "}}");
    return n;
}

static Node *parse_data(Parser *p) {
    Node *n = parser_node(p, NODE_DATA);
    n->value = value_text(p->at++->text);
    return n;
}

static bool ends_body(const Parser *p) {
    return parser_is(p, "elif") || parser_is(p, "else") || (p->at->text.n > 3 && !memcmp(p->at->text.data, "end", 3));
}

static Node *parse_body(Parser *p) {
    Node *first = NULL, **last = &first;
    work_enter(p->w);
    for (; p->at->kind != TOKEN_END; last = &(*last)->next) {
        p->w->line = p->at->line;
        if (p->at->kind == TOKEN_DATA) {
            *last = parse_data(p);
        } else if (parser_takes(p, "{{")) {
            *last = parse_print(p);
        } else {
            parser_wants(p, "{%");
            if (ends_body(p)) break;
            *last = parse_block(p);
        }
    }
    p->w->depth--;
    return first;
}

Node *nodes_parse(JinjaWork *w, const char *source, size_t n, Dict *names) {
    Parser p = {.w = w, .at = lex(w, source, n), .names = names};
    Node *body = parse_body(&p);
    if (p.at->kind != TOKEN_END) parser_fail(&p, "a statement");
    return body;
}
