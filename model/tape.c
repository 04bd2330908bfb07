#include "model/tape.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"

#include <string.h>

struct TapeNode {
    TapeNode *previous;
    void (*backward)(void *context);
    void *context;
    Mat *mats; /* made since the previous node: no node before it knows them */
};

void tape_init(Tape *t, bool recording) {
    *t = (Tape){.recording = recording};
    arena_init(&t->arena, 1 << 20);
    if (recording) arena_init(&t->gradients, 1 << 20);
}

void tape_free(Tape *t) {
    arena_free(&t->arena);
    arena_free(&t->gradients);
}

void tape_reset(Tape *t) {
    arena_rewind(&t->arena, (ArenaMark){.block = t->arena.first});
    if (t->recording) arena_rewind(&t->gradients, (ArenaMark){.block = t->gradients.first});
    t->spare = NULL;
    t->fresh = NULL;
    t->last = NULL;
    t->penalty = NULL;
}

void *tape_alloc(Tape *t, size_t bytes) { return arena_alloc(&t->arena, bytes); }

Mat *tape_mat(Tape *t, int n, int d) {
    Mat *m = tape_alloc(t, sizeof *m);
    *m = (Mat){.n = n, .d = d, .x = tape_alloc(t, (size_t)n * (size_t)d * sizeof(float))};
    if (!t->recording) return m;
    m->tape = t;
    m->older = t->fresh;
    t->fresh = m;
    return m;
}

Mat *tape_view(Tape *t, Mat *m, int n, int d) {
    BUG_ON((size_t)n * (size_t)d != (size_t)m->n * (size_t)m->d);
    Mat *view = tape_alloc(t, sizeof *view);
    *view = (Mat){.n = n, .d = d, .x = m->x, .of = m->of ? m->of : m};
    return view;
}

/* ---- gradients ---- */

/* In front of every dx, which keeps the arena's alignment. */
struct GradientBuffer {
    GradientBuffer *next;
    size_t bytes;
};
enum { BEFORE_DX = 64 };

static size_t gradient_bytes(const Mat *m) { return (size_t)m->n * (size_t)m->d * sizeof(float); }

static float *buffer_take(Tape *t, size_t bytes) {
    GradientBuffer **at = &t->spare;
    while (*at && (*at)->bytes != bytes) at = &(*at)->next;
    GradientBuffer *b = *at;
    if (b) {
        *at = b->next;
    } else {
        b = arena_alloc(&t->gradients, BEFORE_DX + bytes);
        b->bytes = bytes;
    }
    return (float *)(void *)((char *)b + BEFORE_DX);
}

static void buffer_give(Tape *t, float *dx) {
    GradientBuffer *b = (GradientBuffer *)(void *)((char *)dx - BEFORE_DX);
    b->next = t->spare;
    t->spare = b;
}

/* The Mat whose dx counts. */
static Mat *owner(Mat *m) { return m->of ? m->of : m; }

bool mat_first(Mat *m) {
    Mat *o = owner(m);
    bool first = !o->dx;
    if (first) o->dx = buffer_take(o->tape, gradient_bytes(o));
    m->dx = o->dx;
    return first;
}

float *mat_gradient(Mat *m) {
    if (mat_first(m)) memset(m->dx, 0, gradient_bytes(m));
    return m->dx;
}

float *mat_gradient_in_place(Mat *m) {
    BUG_ON(m->dx || m->of);
    return m->dx = m->x;
}

void mat_pass_on(Mat *y, Mat *b) {
    const float *dy = mat_gradient(y);
    Mat *from = owner(y), *to = owner(b);
    BUG_ON(dy == from->x);
    if (!to->dx) {
        to->dx = from->dx;
        from->dx = NULL;
        return;
    }
#pragma omp parallel for if (team_pays((size_t)y->n * (size_t)y->d, TEAM_ELEMENTS))
    for (int i = 0; i < y->n; i++)
        kernels->add_row(y->d, dy + (size_t)i * (size_t)y->d, to->dx + (size_t)i * (size_t)y->d);
}

static void forget_gradients(const TapeNode *node) {
    for (const Mat *m = node->mats; m; m = m->older)
        if (m->dx && m->dx != m->x) buffer_give(m->tape, m->dx);
}

/* ---- nodes ---- */

void tape_push(Tape *t, void (*backward)(void *), void *context) {
    BUG_ON(!t->recording);
    TapeNode *node = tape_alloc(t, sizeof *node);
    *node = (TapeNode){.previous = t->last, .backward = backward, .context = context, .mats = t->fresh};
    t->last = node;
    t->fresh = NULL;
}

static void run_backward(const TapeNode *from, const TapeNode *until) {
    for (const TapeNode *node = from; node != until; node = node->previous) {
        node->backward(node->context);
        forget_gradients(node);
    }
}

void tape_backward(Tape *t, Mat *loss) {
    BUG_ON(loss->n != 1 || loss->d != 1);
    mat_gradient(loss)[0] = 1;
    run_backward(t->last, NULL);
}

/* ---- layers ---- */

typedef struct Entry {
    const Tape *tape;
    int layer;
} Entry;

static void left(void *context) {
    const Entry *e = context;
    e->tape->reached(e->tape->reached_context, e->layer);
}

void tape_enter_layer(Tape *t, int layer) {
    if (!t->reached) return;
    Entry *e = tape_alloc(t, sizeof *e);
    *e = (Entry){.tape = t, .layer = layer};
    tape_push(t, left, e);
}

/* ---- recomputation ---- */

typedef struct Recompute {
    Tape *tape;
    TapeNode *node; /* its own */
    Mat *(*forward)(void *context, Mat *x);
    void *context;
    Mat *x, *y, *penalty_before, *penalty;
    ArenaMark end; /* what it has kept lies before */
} Recompute;

/* The same both times: its nodes hang on c's own, its penalty on the one before, whatever is newer by now. */
static Mat *record(const Recompute *c) {
    c->tape->last = c->node;
    c->tape->fresh = NULL;
    c->tape->penalty = c->penalty_before;
    return c->forward(c->context, c->x);
}

static bool adds_penalty(const Recompute *c) { return c->tape->penalty != c->penalty_before; }

static void recompute_backward(void *context) {
    const Recompute *c = context;
    Tape *t = c->tape;
    arena_rewind(&t->arena, c->end); /* what came behind has run backwards too */
    mat_pass_on(c->y, record(c));
    if (adds_penalty(c)) mat_pass_on(c->penalty, t->penalty);
    run_backward(t->last, c->node);
}

Mat *tape_recompute(Tape *t, Mat *(*forward)(void *, Mat *), void *context, Mat *x) {
    Recompute *c = tape_alloc(t, sizeof *c);
    *c = (Recompute){.tape = t,
                     .forward = forward,
                     .context = context,
                     .x = x,
                     .y = tape_mat(t, x->n, x->d),
                     .penalty_before = t->penalty,
                     .penalty = tape_mat(t, 1, 1)};
    tape_push(t, recompute_backward, c);
    c->node = t->last;
    c->end = arena_mark(&t->arena);
    const Mat *y = record(c);
    BUG_ON(y->n != x->n || y->d != x->d);
    memcpy(c->y->x, y->x, (size_t)y->n * (size_t)y->d * sizeof(float));
    if (adds_penalty(c)) {
        c->penalty->x[0] = t->penalty->x[0];
        t->penalty = c->penalty;
    }
    t->last = c->node;
    t->fresh = NULL;
    arena_rewind(&t->arena, c->end);
    return c->y;
}
