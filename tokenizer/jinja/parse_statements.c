#include "tokenizer/jinja/parser.h"

#include "base/err.h"

#include <string.h>

/* Statements up to a block that begins with one of the names in `ends` (separated by spaces), whose name is taken:
 * which it is. "": up to the end of the template. */
static Node *parse_body(Parser *p, const char *ends, MarkedText *end);

static void end_block(Parser *p) {
    if (p->at->kind != TOKEN_BLOCK_END) parser_fail(p, "%}");
    p->at++;
}

static Node *body_up_to(Parser *p, const char *end) {
    MarkedText found;
    end_block(p);
    Node *body = parse_body(p, end, &found);
    end_block(p);
    return body;
}

/* Behind "if" or "elif". */
static Node *parse_if(Parser *p) {
    Node *n = parser_node(p, NODE_IF);
    MarkedText end;
    n->a = parse_tuple(p, parse_condition);
    end_block(p);
    n->list = parse_body(p, "elif else endif", &end);
    if (text_is(end, "elif"))
        n->otherwise = parse_if(p);
    else if (text_is(end, "else"))
        n->otherwise = body_up_to(p, "endif");
    else
        end_block(p);
    return n;
}

static Node *parse_target(Parser *p) {
    Node *n = parser_node(p, NODE_NAME);
    if (parser_takes(p, "(")) {
        n = parse_tuple(p, parse_target);
        parser_wants(p, ")");
        return n;
    }
    n->name = parser_name(p);
    if (!parser_takes(p, ".")) return n;
    Node *attribute = parser_node(p, NODE_ATTRIBUTE);
    attribute->a = n;
    attribute->name = parser_name(p);
    return attribute;
}

static Node *parse_for(Parser *p) {
    Node *n = parser_node(p, NODE_FOR);
    MarkedText end;
    n->a = parse_tuple(p, parse_target);
    parser_wants(p, "in");
    n->b = parse_tuple(p, parse_condition);
    if (parser_takes(p, "if")) n->c = parse_expression(p);
    end_block(p);
    p->loops++;
    n->list = parse_body(p, "else endfor", &end);
    p->loops--;
    if (text_is(end, "else"))
        n->otherwise = body_up_to(p, "endfor");
    else
        end_block(p);
    return n;
}

static Node *parse_set(Parser *p) {
    Node *n = parser_node(p, NODE_SET);
    n->a = parse_tuple(p, parse_target);
    if (parser_takes(p, "=")) {
        n->b = parse_tuple(p, parse_expression);
        end_block(p);
    } else {
        n->list = body_up_to(p, "endset");
    }
    return n;
}

/* "name=default, ..." up to a bracket that closes. */
static Node *parse_parameters(Parser *p) {
    Node *first = NULL, **end = &first;
    while (!parser_takes(p, ")")) {
        if (first) parser_wants(p, ",");
        *end = parser_node(p, NODE_ARGUMENT);
        (*end)->name = parser_name(p);
        if (parser_takes(p, "=")) (*end)->a = parse_expression(p);
        end = &(*end)->next;
    }
    return first;
}

/* Loops outside are not left from inside. */
static Node *parse_macro(Parser *p) {
    Node *n = parser_node(p, NODE_MACRO);
    int loops = p->loops;
    n->name = parser_name(p);
    parser_wants(p, "(");
    n->otherwise = parse_parameters(p);
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
    if (p->loops == 0) work_fail(p->w, "%.*s outside of a loop", (int)p->at[-1].text.n, p->at[-1].text.data);
    end_block(p);
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

static bool is_among(MarkedText name, const char *names) {
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        if (n == name.n && !memcmp(names, name.data, n)) return true;
    }
    return false;
}

static Node *parse_print(Parser *p) {
    Node *n = parser_node(p, NODE_PRINT);
    n->a = parse_tuple(p, parse_expression);
    if (p->at->kind != TOKEN_PRINT_END) parser_fail(p, "}}");
    p->at++;
    return n;
}

static Node *parse_body(Parser *p, const char *ends, MarkedText *end) {
    Node *first = NULL, **last = &first;
    work_enter(p->w);
    for (;; last = &(*last)->next) {
        const Token *t = p->at++;
        p->w->line = t->line;
        if (t->kind == TOKEN_END && !*ends) break;
        if (t->kind == TOKEN_END) work_fail(p->w, "the template ends where %s should be", ends);
        if (t->kind == TOKEN_BLOCK && p->at->kind == TOKEN_NAME && is_among(p->at->text, ends)) {
            *end = p->at++->text;
            break;
        }
        if (t->kind == TOKEN_DATA) {
            *last = parser_node(p, NODE_DATA);
            (*last)->value = value_text(t->text);
        } else {
            *last = t->kind == TOKEN_PRINT ? parse_print(p) : parse_block(p);
        }
    }
    p->w->depth--;
    return first;
}

Node *nodes_parse(JinjaWork *w, const char *source, size_t n) {
    MarkedText end;
    Parser p = {.w = w, .at = lex(w, source, n)};
    return parse_body(&p, "", &end);
}
