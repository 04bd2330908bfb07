#include "server/form/walk.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- frames ---- */

static int chain_of(int node, int count, int parent) {
    uint32_t h = (uint32_t)node * 0x9E3779B1u ^ (uint32_t)count * 0x85EBCA6Bu ^ (uint32_t)parent * 0xC2B2AE35u;
    return (int)((h ^ h >> 15) % FORM_FRAMES);
}

/* The frame; 0, which is no frame of anything, when there is no room. */
static int push(FormWalk *w, int node, int count, int parent) {
    int chain = chain_of(node, count, parent);
    for (int i = w->heads[chain]; i; i = w->frames[i].next) {
        const Frame *f = &w->frames[i];
        if (f->node == node && f->count == count && f->parent == parent) return i;
    }
    if (w->n_frames == FORM_FRAMES) return 0;
    w->frames[w->n_frames] = (Frame){.node = node,
                                     .count = count,
                                     .parent = parent,
                                     .depth = (int16_t)(w->frames[parent].depth + 1),
                                     .next = w->heads[chain]};
    w->heads[chain] = (int16_t)w->n_frames;
    return w->n_frames++;
}

/* A chain's newest frame is its head. */
void walk_back(FormWalk *w, int n_frames) {
    while (w->n_frames > n_frames) {
        const Frame *f = &w->frames[--w->n_frames];
        w->heads[chain_of(f->node, f->count, f->parent)] = f->next;
    }
}

/* Keeps the frames that ways stand on. */
static void compact(FormWalk *w, FormScratch *s) {
    int32_t *to = s->renamed;
    int n = w->n_frames;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int i = 0; i < w->n_ways; i++) to[w->ways[i].stack] = 1;
    for (int i = n - 1; i > 0; i--)
        if (to[i]) to[w->frames[i].parent] = 1;
    memset(w->heads, 0, sizeof w->heads);
    w->n_frames = 1;
    to[0] = 0;
    for (int i = 1; i < n; i++) {
        Frame f = w->frames[i];
        if (to[i]) to[i] = push(w, f.node, f.count, to[f.parent]);
    }
    for (int i = 0; i < w->n_ways; i++) w->ways[i].stack = to[w->ways[i].stack];
}

/* ---- closing: from nodes to the texts and classes that they begin with ---- */

typedef struct Closing {
    FormWalk *walk;
    FormScratch *scratch;
    Place *out;
    int n_todo, n_visits;
    bool full; /* one of the bounds was met */
} Closing;

static void emit(Closing *c, int node, int stack, uint32_t seen) {
    Place *p = c->out;
    if (p->n == FORM_WAYS || p->first + p->n == FORM_POOL)
        c->full = true;
    else
        c->scratch->pool[p->first + p->n++] = (Way){.node = node, .stack = stack, .seen = seen};
}

/* False when it was there in this closing. */
static bool visit(FormScratch *s, uint64_t place) {
    uint32_t i = (uint32_t)((place * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % (2 * FORM_VISITS);
    while (s->stamps[i] == s->stamp) {
        if (s->visited[i] == place) return false;
        i = (i + 1) % (2 * FORM_VISITS);
    }
    s->stamps[i] = s->stamp;
    s->visited[i] = place;
    return true;
}

static void add(Closing *c, int node, int stack) {
    uint64_t place = (uint64_t)node << 32 | (uint32_t)stack;
    if (c->walk->form->nodes[node].need + c->walk->frames[stack].depth > FORM_DEPTH) return;
    if (!visit(c->scratch, place)) return;
    if (++c->n_visits == FORM_VISITS)
        c->full = true;
    else
        c->scratch->todo[c->n_todo++] = place;
}

/* `node`, behind which what is stacked has to come, and before that `next`. */
static void add_before(Closing *c, int node, int next, int count, int stack) {
    int frame = push(c->walk, next, count, stack);
    if (frame)
        add(c, node, frame);
    else
        c->full = true;
}

static void repeat_again(Closing *c, int node, int count, int stack) {
    const Node *n = &c->walk->form->nodes[node];
    if (n->high == GRAPH_ENDLESS) count = MIN(count, MAX(n->low, 1)); /* more of them is the same */
    add_before(c, n->a, node, count, stack);
}

static void pop(Closing *c, int stack) {
    const Form *form = c->walk->form;
    Frame f = c->walk->frames[stack];
    if (stack == 0) {
        c->out->may_end = true;
    } else if (f.count == 0) {
        add(c, f.node, f.parent);
    } else {
        const Node *n = &form->nodes[f.node];
        if (f.count >= n->low || form->nodes[n->a].nullable) add(c, GRAPH_EMPTY, f.parent);
        if (n->high == GRAPH_ENDLESS || f.count < n->high) repeat_again(c, f.node, f.count + 1, f.parent);
    }
}

static void open_node(Closing *c, int node, int stack) {
    const Node *n = &c->walk->form->nodes[node];
    switch (n->kind) {
    case NODE_NEVER:
        break;
    case NODE_EMPTY:
        pop(c, stack);
        break;
    case NODE_TEXT:
    case NODE_CLASS:
        emit(c, node, stack, 0);
        break;
    case NODE_THEN:
        add_before(c, n->a, n->b, 0, stack);
        break;
    case NODE_EITHER:
        add(c, n->a, stack);
        add(c, n->b, stack);
        break;
    case NODE_REPEAT:
        if (n->nullable) add(c, GRAPH_EMPTY, stack);
        repeat_again(c, node, 1, stack);
        break;
    case NODE_NAME:
        add(c, n->a, stack);
        break;
    }
}

static void close_all(Closing *c) {
    while (c->n_todo > 0 && !c->full) {
        uint64_t place = c->scratch->todo[--c->n_todo];
        open_node(c, (int)(place >> 32), (int)(uint32_t)place);
    }
}

static Closing closing_begin(FormWalk *w, FormScratch *s, Place *out, int first) {
    if (++s->stamp == 0) { /* once in four billion bytes */
        memset(s->stamps, 0, 2 * FORM_VISITS * sizeof *s->stamps);
        s->stamp = 1;
    }
    *out = (Place){.first = first, .n_frames = w->n_frames};
    return (Closing){.walk = w, .scratch = s, .out = out};
}

/* ---- a byte ---- */

/* Bytes of a code point: how many are missing, how many it has, and what those that came amount to. */
typedef struct Partial {
    uint32_t missing, length, value;
} Partial;

static uint32_t pack(Partial p) { return p.missing << 28 | p.length << 24 | p.value; }
static Partial unpack(uint32_t seen) { return (Partial){seen >> 28, seen >> 24 & 15, seen & 0xFFFFFF}; }

static Partial lead(uint8_t byte) {
    if (byte < 0x80) return (Partial){0, 1, byte};
    if (byte >= 0xC2 && byte < 0xE0) return (Partial){1, 2, byte & 0x1F};
    if (byte >= 0xE0 && byte < 0xF0) return (Partial){2, 3, byte & 0x0F};
    if (byte >= 0xF0 && byte < 0xF5) return (Partial){3, 4, byte & 0x07};
    return (Partial){.length = 0};
}

/* Whether the class has a code point that begins with these bytes. */
static bool class_has(const Form *f, const Node *n, Partial p) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t low = p.value << 6 * p.missing, high = low | ((1u << 6 * p.missing) - 1);
    low = MAX(low, least[p.length]);
    for (const Range *r = f->ranges + n->a; r < f->ranges + n->a + n->b && r->low <= high; r++)
        if (r->high >= low && low <= high) return true;
    return false;
}

static void step_way(Closing *c, Way way, uint8_t byte) {
    const Form *form = c->walk->form;
    const Node *n = &form->nodes[way.node];
    if (n->kind == NODE_TEXT) {
        if ((uint8_t)form->texts[n->a + (int)way.seen] != byte) return;
        if ((int)way.seen + 1 == n->b)
            add(c, GRAPH_EMPTY, way.stack);
        else
            emit(c, way.node, way.stack, way.seen + 1);
        return;
    }
    Partial p = way.seen ? unpack(way.seen) : lead(byte);
    if (way.seen) {
        if ((byte & 0xC0) != 0x80) return;
        p = (Partial){p.missing - 1, p.length, p.value << 6 | (byte & 0x3F)};
    }
    if (p.length == 0 || !class_has(form, n, p)) return;
    if (p.missing == 0)
        add(c, GRAPH_EMPTY, way.stack);
    else
        emit(c, way.node, way.stack, pack(p));
}

void walk_begin(const FormWalk *w, FormScratch *s) {
    s->places[0] = (Place){.n = w->n_ways, .n_frames = w->n_frames, .may_end = w->may_end};
    memcpy(s->pool, w->ways, (size_t)w->n_ways * sizeof *w->ways);
}

bool walk_step(FormWalk *w, FormScratch *s, int i, uint8_t byte) {
    const Place *from = &s->places[i];
    Place *to = &s->places[i + 1];
    if (i == 0 && byte == ' ' && w->skips_space) {
        *to = *from;
        return true;
    }
    Closing c = closing_begin(w, s, to, from->first + from->n);
    for (int k = 0; k < from->n && !c.full; k++) step_way(&c, s->pool[from->first + k], byte);
    close_all(&c);
    s->n_visits += c.n_visits + from->n;
    if (!c.full && (to->n > 0 || to->may_end)) {
        to->n_frames = w->n_frames;
        return true;
    }
    walk_back(w, to->n_frames);
    return false;
}

/* Whether all bytes may come; their place is then places[n]. */
static bool try_bytes(FormWalk *w, const char *bytes, size_t n, FormScratch *s) {
    if (n == 0 || n > FORM_BYTES) return false;
    walk_begin(w, s);
    for (size_t i = 0; i < n; i++)
        if (!walk_step(w, s, (int)i, (uint8_t)bytes[i])) return false;
    return true;
}

bool form_test(FormWalk *w, const char *bytes, size_t n, FormScratch *s) {
    int frames = w->n_frames;
    bool legal = try_bytes(w, bytes, n, s);
    walk_back(w, frames);
    return legal;
}

bool form_take(FormWalk *w, const char *bytes, size_t n, FormScratch *s) {
    int frames = w->n_frames;
    if (!try_bytes(w, bytes, n, s)) {
        walk_back(w, frames);
        return false;
    }
    const Place *p = &s->places[n];
    w->n_ways = p->n;
    w->may_end = p->may_end;
    w->skips_space = false;
    memcpy(w->ways, s->pool + p->first, (size_t)p->n * sizeof *w->ways);
    if (w->n_frames > FORM_FRAMES / 2) compact(w, s);
    return true;
}

bool form_may_end(const FormWalk *w) { return w->may_end; }
bool form_is_over(const FormWalk *w) { return w->may_end && w->n_ways == 0; }
bool form_is_stuck(const FormWalk *w) { return !w->may_end && w->n_ways == 0; }
void form_walk_skip_space(FormWalk *w) { w->skips_space = true; }

/* ---- life ---- */

FormScratch *form_scratch_new(void) {
    FormScratch *s = try_calloc(1, sizeof *s);
    if (!s) return NULL;
    s->visited = try_malloc(2 * FORM_VISITS * sizeof *s->visited);
    s->stamps = try_calloc(2 * FORM_VISITS, sizeof *s->stamps);
    s->todo = try_malloc(FORM_VISITS * sizeof *s->todo);
    s->pool = try_malloc(FORM_POOL * sizeof *s->pool);
    s->renamed = try_malloc(FORM_FRAMES * sizeof *s->renamed);
    if (s->visited && s->stamps && s->todo && s->pool && s->renamed) return s;
    form_scratch_free(s);
    return NULL;
}

void form_scratch_free(FormScratch *s) {
    if (!s) return;
    free(s->visited);
    free(s->stamps);
    free(s->todo);
    free(s->pool);
    free(s->renamed);
    free(s);
}

FormWalk *form_walk_new(Form *f, FormScratch *s) {
    FormWalk *w = try_calloc(1, sizeof *w);
    if (!w) return NULL;
    w->form = form_hold(f);
    w->n_frames = 1;
    Closing c = closing_begin(w, s, &s->places[0], 0);
    add(&c, f->root, 0);
    close_all(&c);
    if (c.full) s->places[0].n = 0; /* a beginning beyond the bounds: nothing may come */
    w->n_ways = s->places[0].n;
    w->may_end = !c.full && s->places[0].may_end;
    memcpy(w->ways, s->pool, (size_t)w->n_ways * sizeof *w->ways);
    return w;
}

FormWalk *form_walk_clone(const FormWalk *w) {
    FormWalk *c = try_malloc(sizeof *c);
    if (!c) return NULL;
    memcpy(c, w, offsetof(FormWalk, ways));
    memcpy(c->ways, w->ways, (size_t)w->n_ways * sizeof *c->ways);
    memcpy(c->frames, w->frames, (size_t)w->n_frames * sizeof *c->frames);
    memcpy(c->heads, w->heads, sizeof c->heads);
    form_hold(c->form);
    return c;
}

void form_walk_free(FormWalk *w) {
    if (!w) return;
    form_release(w->form);
    free(w);
}
