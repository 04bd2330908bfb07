/* node: a template as a tree. */
#ifndef NOISED_JINJA_NODE_H
#define NOISED_JINJA_NODE_H

#include "tokenizer/jinja/builtin.h"
#include "tokenizer/jinja/operators.h"

typedef enum NodeKind {
    /* expressions: a, b and c are operands, list is arguments or elements */
    NODE_CONST, /* value */
    NODE_NAME,  /* name */
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,      /* list: key, value, key, value... */
    NODE_ATTRIBUTE, /* a.name */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a[b:c:list], each of which may be NULL */
    NODE_CALL,      /* a(list) */
    NODE_BUILTIN,   /* a|builtin(list), a is builtin(list) */
    NODE_ARGUMENT,  /* in a list: name=a */
    NODE_SEVERAL,   /* in a list: *a */
    NODE_NOT,
    NODE_NEGATIVE,
    NODE_BINARY, /* a op b */
    NODE_CHOICE, /* b if a else c; c may be NULL */
    /* statements: list is the body */
    NODE_DATA,  /* value */
    NODE_PRINT, /* a */
    NODE_IF,    /* a; otherwise */
    NODE_FOR,   /* a in b if c; otherwise */
    NODE_SET,   /* a = b; without b: a is what list writes */
    NODE_MACRO, /* name, with the NODE_ARGUMENTs of otherwise, whose a may be NULL */
    NODE_SCOPE, /* transformers' `generation`, which marks an assistant's words */
    NODE_BREAK,
    NODE_CONTINUE
} NodeKind;

typedef struct Node Node;
struct Node {
    NodeKind kind;
    Operator op;
    int line;
    MarkedText name;
    Value value;
    const Builtin *builtin;
    Node *a, *b, *c, *list, *otherwise;
    Node *next; /* in a list */
};

#endif
