#include "server/form/graph.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int form_fail(FormError *e, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    return -1;
}

Form *form_no_memory(FormError *e) {
    e->no_memory = true;
    form_fail(e, "no memory for it");
    return NULL;
}

/* ---- making ---- */

/* Room for one batch of `more` elements behind n; false when there is none. */
static bool reserve(Form *f, void *array, int *capacity, int n, size_t more, size_t size) {
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    if ((size_t)n + more <= (size_t)*capacity) return true;
    size_t wanted = MAX(2 * (size_t)*capacity, MAX((size_t)n + more, 64));
    if (wanted > (size_t)1 << 24) f->full = true;
    grown = f->full ? NULL : try_realloc(old, wanted * size);
    if (!grown) return f->failed = true, false;
    memcpy(array, &grown, sizeof grown);
    *capacity = (int)wanted;
    return true;
}

static int node_new(Form *f, Node node) {
    if (f->n_nodes == FORM_NODES) f->full = f->failed = true;
    if (f->failed || !reserve(f, &f->nodes, &f->node_capacity, f->n_nodes, 1, sizeof *f->nodes)) return GRAPH_NEVER;
    f->nodes[f->n_nodes] = node;
    return f->n_nodes++;
}

Form *graph_new(void) {
    Form *f = try_calloc(1, sizeof *f);
    if (!f) return NULL;
    atomic_init(&f->references, 1);
    node_new(f, (Node){.kind = NODE_NEVER});
    node_new(f, (Node){.kind = NODE_EMPTY});
    if (!f->failed) return f;
    form_release(f);
    return NULL;
}

Form *form_hold(Form *f) {
    if (f) atomic_fetch_add(&f->references, 1);
    return f;
}

void form_release(Form *f) {
    if (!f || atomic_fetch_sub(&f->references, 1) > 1) return;
    free(f->nodes);
    free(f->ranges);
    free(f->texts);
    free(f);
}

int graph_text(Form *f, const char *bytes, size_t n) {
    if (n == 0) return GRAPH_EMPTY;
    if (!reserve(f, &f->texts, &f->text_capacity, f->n_texts, n, 1)) return GRAPH_NEVER;
    memcpy(f->texts + f->n_texts, bytes, n);
    f->n_texts += (int)n;
    return node_new(f, (Node){.kind = NODE_TEXT, .a = f->n_texts - (int)n, .b = (int)n});
}

static int compare_ranges(const void *a, const void *b) {
    const Range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

int ranges_normalise(Range *ranges, int n) {
    enum { LAST = 0x10FFFF, SURROGATE = 0xD800, BEHIND = 0xE000 };
    int kept = 0;
    qsort(ranges, (size_t)n, sizeof *ranges, compare_ranges);
    for (int i = 0; i < n; i++) {
        Range r = {ranges[i].low, MIN(ranges[i].high, LAST)};
        if (r.low > r.high) continue;
        if (kept > 0 && r.low <= ranges[kept - 1].high + 1)
            ranges[kept - 1].high = MAX(ranges[kept - 1].high, r.high);
        else
            ranges[kept++] = r;
    }
    /* At most one range begins before the surrogates and ends behind them; then none begins or ends among them. */
    for (int i = 0; i < kept; i++) {
        Range *r = &ranges[i];
        if (r->low < SURROGATE && r->high >= BEHIND) {
            memmove(r + 2, r + 1, (size_t)(kept - i - 1) * sizeof *r);
            r[1] = (Range){BEHIND, r->high};
            r->high = SURROGATE - 1;
            return kept + 1;
        }
        if (r->high >= SURROGATE && r->high < BEHIND) r->high = SURROGATE - 1;
        if (r->low >= SURROGATE && r->low < BEHIND) r->low = BEHIND;
        if (r->low > r->high) {
            memmove(r, r + 1, (size_t)(kept - i - 1) * sizeof *r);
            kept--, i--;
        }
    }
    return kept;
}

int ranges_negate(const Range *ranges, int n, Range *out) {
    uint32_t from = 0;
    for (int i = 0; i < n; i++) {
        out[i] = (Range){from, ranges[i].low - 1};
        if (ranges[i].low == 0) out[i] = (Range){1, 0}; /* empty */
        from = ranges[i].high + 1;
    }
    out[n] = (Range){from, 0x10FFFF};
    return ranges_normalise(out, n + 1);
}

int graph_class(Form *f, const Range *ranges, int n, bool negated) {
    if (!reserve(f, &f->ranges, &f->range_capacity, f->n_ranges, 2 * (size_t)n + 4, sizeof *f->ranges))
        return GRAPH_NEVER;
    Range *mine = f->ranges + f->n_ranges;
    if (n) memcpy(mine, ranges, (size_t)n * sizeof *mine);
    int kept = ranges_normalise(mine, n);
    if (negated) {
        int left = ranges_negate(mine, kept, mine + kept);
        memmove(mine, mine + kept, (size_t)left * sizeof *mine);
        kept = left;
    }
    if (kept == 0) return GRAPH_NEVER;
    f->n_ranges += kept;
    return node_new(f, (Node){.kind = NODE_CLASS, .a = f->n_ranges - kept, .b = kept});
}

/* The text a and b in a row, where they lie so; else GRAPH_NEVER. */
static int join_texts(Form *f, int a, int b) {
    Node x = f->nodes[a], y = f->nodes[b];
    if (x.kind != NODE_TEXT || y.kind != NODE_TEXT || x.a + x.b != y.a) return GRAPH_NEVER;
    return node_new(f, (Node){.kind = NODE_TEXT, .a = x.a, .b = x.b + y.b});
}

int graph_then(Form *f, int a, int b) {
    if (a == GRAPH_NEVER || b == GRAPH_NEVER) return GRAPH_NEVER;
    if (a == GRAPH_EMPTY || b == GRAPH_EMPTY) return a == GRAPH_EMPTY ? b : a;
    Node rest = f->nodes[b];
    int text = join_texts(f, a, rest.kind == NODE_THEN ? rest.a : b);
    if (text != GRAPH_NEVER && rest.kind != NODE_THEN) return text;
    if (text != GRAPH_NEVER) return node_new(f, (Node){.kind = NODE_THEN, .a = text, .b = rest.b});
    return node_new(f, (Node){.kind = NODE_THEN, .a = a, .b = b});
}

int graph_either(Form *f, int a, int b) {
    if (a == GRAPH_NEVER || a == b) return b;
    if (b == GRAPH_NEVER) return a;
    return node_new(f, (Node){.kind = NODE_EITHER, .a = a, .b = b});
}

int graph_repeat(Form *f, int a, int low, int high) {
    if (high == 0 || a == GRAPH_EMPTY) return GRAPH_EMPTY;
    if (a == GRAPH_NEVER) return low == 0 ? GRAPH_EMPTY : GRAPH_NEVER;
    if (low == 1 && high == 1) return a;
    return node_new(f, (Node){.kind = NODE_REPEAT, .a = a, .low = low, .high = high});
}

void graph_part(Form *f, GraphParts *p, int node) {
    if (reserve(f, &p->nodes, &p->capacity, p->n, 1, sizeof *p->nodes)) p->nodes[p->n++] = node;
}

int graph_join(Form *f, GraphParts *p, int start) {
    int all = GRAPH_EMPTY;
    while (p->n > start) all = graph_then(f, p->nodes[--p->n], all);
    return all;
}

void graph_parts_free(GraphParts *p) {
    free(p->nodes);
    *p = (GraphParts){0};
}

int graph_name(Form *f) {
    if (f->n_names++ == GRAPH_NAMES) f->full = f->failed = true;
    return node_new(f, (Node){.kind = NODE_NAME});
}

void graph_define(Form *f, int name, int node) {
    if (!f->failed) f->nodes[name].a = node;
}

/* ---- what is true of the whole ---- */

static bool is_nullable(const Form *f, const Node *n) {
    switch (n->kind) {
    case NODE_EMPTY:
        return true;
    case NODE_THEN:
        return f->nodes[n->a].nullable && f->nodes[n->b].nullable;
    case NODE_EITHER:
        return f->nodes[n->a].nullable || f->nodes[n->b].nullable;
    case NODE_REPEAT:
        return n->low == 0 || f->nodes[n->a].nullable;
    case NODE_NAME:
        return f->nodes[n->a].nullable;
    default:
        return false;
    }
}

/* Only of some kinds a is a node: a class and a text have other places there, which may lie beyond all nodes. */
static int need_of(const Form *f, const Node *n) {
    const Node *nodes = f->nodes;
    switch (n->kind) {
    case NODE_NEVER:
        return GRAPH_NO_END;
    case NODE_THEN:
        return MIN(MAX(nodes[n->a].need + 1, nodes[n->b].need), GRAPH_NO_END);
    case NODE_EITHER:
        return MIN(nodes[n->a].need, nodes[n->b].need);
    case NODE_REPEAT:
        return n->low == 0 ? 0 : MIN(nodes[n->a].need + 1, GRAPH_NO_END);
    case NODE_NAME:
        return nodes[n->a].need;
    default:
        return 0;
    }
}

/* The least fixed point of both, from "nothing is nullable, nothing ends". A node is made behind what it is made of, so
 * a round settles all but what names lead back to. */
static void settle(Form *f) {
    for (int i = 0; i < f->n_nodes; i++) f->nodes[i].need = GRAPH_NO_END;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < f->n_nodes; i++) {
            Node *n = &f->nodes[i];
            bool nullable = is_nullable(f, n);
            int need = need_of(f, n);
            changed = changed || nullable != n->nullable || need != n->need;
            n->nullable = nullable;
            n->need = need;
        }
    }
}

/* Nodes that `name` leads to before any byte, by their number, twice: with something stacked since then or not. */
typedef struct Search {
    int *seen; /* [2 n_nodes] the search that was there last */
    int *todo; /* [2 n_nodes] */
    int n_todo, number;
} Search;

static void look_at(Search *s, int node, bool stacked) {
    int place = 2 * node + stacked;
    if (s->seen[place] == s->number) return;
    s->seen[place] = s->number;
    s->todo[s->n_todo++] = place;
}

static bool begins_with_itself(const Form *f, Search *s, int name) {
    s->number++;
    look_at(s, f->nodes[name].a, false);
    while (s->n_todo > 0) {
        int place = s->todo[--s->n_todo];
        const Node *n = &f->nodes[place / 2];
        bool stacked = place % 2;
        if (n->kind == NODE_NAME || n->kind == NODE_EITHER) look_at(s, n->a, stacked);
        if (n->kind == NODE_THEN || n->kind == NODE_REPEAT) look_at(s, n->a, true);
        if (n->kind == NODE_EITHER || (n->kind == NODE_THEN && f->nodes[n->a].nullable)) look_at(s, n->b, stacked);
    }
    return s->seen[2 * name + 1] == s->number;
}

/* Every circle goes through a name. */
static int check_recursion(const Form *f, FormError *e) {
    size_t places = 2 * (size_t)f->n_nodes;
    Search s = {.seen = try_calloc(places, sizeof(int)), .todo = try_malloc(places * sizeof(int))};
    int rc = 0;
    if (!s.seen || !s.todo) form_no_memory(e), rc = -1;
    for (int i = 0; i < f->n_nodes && rc == 0; i++)
        if (f->nodes[i].kind == NODE_NAME && begins_with_itself(f, &s, i))
            rc = form_fail(e, "a rule begins with itself: left recursion is not supported");
    free(s.seen);
    free(s.todo);
    return rc;
}

Form *graph_finish(Form *f, int root, FormError *e) {
    int rc = 0;
    f->root = root;
    if (f->full)
        rc = form_fail(e, "it is too large: a form has at most %d parts and %d names", FORM_NODES, GRAPH_NAMES);
    else if (f->failed)
        form_no_memory(e), rc = -1;
    else
        settle(f);
    if (rc == 0) rc = check_recursion(f, e);
    if (rc == 0 && f->nodes[root].need > FORM_DEPTH)
        rc = form_fail(e, f->nodes[root].need == GRAPH_NO_END ? "no text is of this form" : "it is nested too deep");
    if (rc == 0) return f;
    form_release(f);
    return NULL;
}
