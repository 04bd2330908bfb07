/* parser: tokens as a tree of nodes (parse_expressions.c, parse_statements.c). */
#ifndef NOISED_JINJA_PARSER_H
#define NOISED_JINJA_PARSER_H

#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/node.h"

typedef struct Parser {
    JinjaWork *w;
    const Token *at;
    int loops;   /* around what is parsed, in this macro */
    Dict *names; /* of all variables that are asked for */
} Parser;

bool parser_is(const Parser *p, const char *text); /* a name or a sign */
bool parser_takes(Parser *p, const char *text);
void parser_wants(Parser *p, const char *text); /* or the work fails */
MarkedText parser_name(Parser *p);              /* of a variable */
_Noreturn void parser_fail(const Parser *p, const char *wanted);
Node *parser_node(const Parser *p, NodeKind kind);

Node *parse_expression(Parser *p);
Node *parse_condition(Parser *p); /* without "if ... else" outside of brackets */
Node *parse_list(Parser *p, const char *close, Node *(*element)(Parser *p)); /* "a, b" up to what closes it */
Node *parse_tuple(Parser *p, Node *(*element)(Parser *p));                   /* "a, b" or "a" */

/* The whole of a source: the list of its statements. Its variables' names become keys of `names`. */
Node *nodes_parse(JinjaWork *w, const char *source, size_t n, Dict *names);

#endif
