/* graph: the nodes of a form while it is made. A node is a set of texts:
 *
 *     never        none                           text     these bytes
 *     empty        ""                             class    one code point of these ranges, in UTF-8
 *     then a b     one of a, behind it one of b   either   one of a or of b
 *     repeat a     low to high of a               name     those of another node, told later: what makes recursion
 *
 * Nodes are numbers. Whoever makes them looks for errors once, in graph_finish: without memory, or beyond the bounds,
 * the functions return GRAPH_NEVER and the form is failed. One thread. */
#ifndef NOISED_FORM_GRAPH_H
#define NOISED_FORM_GRAPH_H

#include "server/form/form.h"

#include <stdatomic.h>

enum { GRAPH_NEVER = 0, GRAPH_EMPTY = 1, GRAPH_ENDLESS = -1, GRAPH_NO_END = 1 << 20, GRAPH_NAMES = 1024 };

typedef enum NodeKind {
    NODE_NEVER,
    NODE_EMPTY,
    NODE_TEXT,   /* texts[a .. a + b) */
    NODE_CLASS,  /* ranges[a .. a + b), ascending, apart, without surrogates */
    NODE_THEN,   /* a, b */
    NODE_EITHER, /* a, b */
    NODE_REPEAT, /* a, low to high times; high GRAPH_ENDLESS */
    NODE_NAME,   /* a */
} NodeKind;

typedef struct Node {
    NodeKind kind;
    int a, b, low, high;
    int need; /* continuations that its shortest way down has on the stack at once; GRAPH_NO_END: it has no text */
    bool nullable;
} Node;

typedef struct Range {
    uint32_t low, high; /* both in it */
} Range;

struct Form {
    atomic_int references;
    Node *nodes;
    Range *ranges;
    char *texts;
    int n_nodes, n_ranges, n_texts, n_names, root;
    int node_capacity, range_capacity, text_capacity;
    bool failed, full; /* memory ran out; it has more nodes than FORM_NODES or more names than GRAPH_NAMES */
};

Form *graph_new(void); /* NULL when memory runs out */

int graph_text(Form *f, const char *bytes, size_t n);
int graph_class(Form *f, const Range *ranges, int n, bool negated); /* n ranges in any order */
int graph_then(Form *f, int a, int b);
int graph_either(Form *f, int a, int b);
int graph_repeat(Form *f, int a, int low, int high);
int graph_name(Form *f);
void graph_define(Form *f, int name, int node); /* once */

static inline int graph_string(Form *f, const char *text) { return graph_text(f, text, __builtin_strlen(text)); }
static inline int graph_optional(Form *f, int a) { return graph_either(f, a, GRAPH_EMPTY); }
static inline int graph_range(Form *f, uint32_t low, uint32_t high) {
    return graph_class(f, &(Range){low, high}, 1, false);
}

/* Nodes that stand one behind the other, gathered: a stack, so that a sequence may be made within another. join takes
 * those from `start` on. A chain that is nested to the right needs one continuation at a time. */
typedef struct GraphParts {
    int *nodes, n, capacity;
} GraphParts;
void graph_part(Form *f, GraphParts *p, int node);
int graph_join(Form *f, GraphParts *p, int start);
void graph_parts_free(GraphParts *p);

/* Sorts and joins ranges[n], takes out surrogates and what is no code point; n afterwards, at most n + 1, for which
 * there is room. */
int ranges_normalise(Range *ranges, int n);
/* What ranges[n], normalised, leave out, into out [n + 2]. */
int ranges_negate(const Range *ranges, int n, Range *out);

/* The form is whole and begins at root. f, or NULL with *e filled and f freed: a part of it has no memory, it is too
 * large, some name begins with itself, or no text is of it. */
Form *graph_finish(Form *f, int root, FormError *e);

/* Both return -1 and NULL, so that they end a failure path. */
int form_fail(FormError *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
Form *form_no_memory(FormError *e);

#endif
