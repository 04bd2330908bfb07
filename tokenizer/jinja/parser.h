/* parser: tokens as a tree of nodes (parse_expressions.c, parse_statements.c). */
#ifndef NOISED_JINJA_PARSER_H
#define NOISED_JINJA_PARSER_H

#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/node.h"

typedef struct Parser {
    JinjaWork *w;
    const Token *at;
    int loops; /* around what is parsed, in this macro */
} Parser;

bool parser_is(const Parser *p, const char *text); /* a name or a sign */
bool parser_takes(Parser *p, const char *text);
void parser_wants(Parser *p, const char *text); /* or the work fails */
MarkedText parser_name(Parser *p);              /* of a variable */
_Noreturn void parser_fail(const Parser *p, const char *wanted);
Node *parser_node(const Parser *p, NodeKind kind);

Node *parse_expression(Parser *p);
Node *parse_condition(Parser *p);                          /* without "if ... else" outside of brackets */
Node *parse_tuple(Parser *p, Node *(*element)(Parser *p)); /* "a, b" or "a" */
Node *parse_filters(Parser *p, Node *of);                  /* |name(...)|name... */
Node *parse_postfix(Parser *p, Node *of);                  /* .name [key] (arguments) */
Node *parse_primary(Parser *p);

/* The whole of a source: the list of its statements. */
Node *nodes_parse(JinjaWork *w, const char *source, size_t n);

#endif
