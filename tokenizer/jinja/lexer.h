/* lexer: a template's source as tokens, with the white space around its tags taken away as the tags say (`{%-`, `-%}`)
 * and as transformers sets it: a block's line end goes with it (trim_blocks), as do the blanks in front of a block or a
 * comment that begins a line (lstrip_blocks), and the last line end of the source. */
#ifndef NOISED_JINJA_LEXER_H
#define NOISED_JINJA_LEXER_H

#include "tokenizer/jinja/value.h"

typedef enum TokenKind {
    TOKEN_DATA, /* what stands between tags */
    TOKEN_NAME,
    TOKEN_VALUE, /* a string or a number */
    TOKEN_SIGN,  /* an operator, a bracket, or that of a tag without its dash: "{%" */
    TOKEN_END
} TokenKind;

typedef struct Token {
    TokenKind kind;
    int line;
    MarkedText text; /* of all but a TOKEN_VALUE */
    Value value;
} Token;

/* Up to a TOKEN_END. Texts are copied or the source's. */
Token *lex(JinjaWork *w, const char *source, size_t n);

#endif
