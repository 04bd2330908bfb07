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
};

void tape_init(Tape *t, bool recording) {
    *t = (Tape){.recording = recording};
    arena_init(&t->arena, 1 << 20);
}

void tape_free(Tape *t) { arena_free(&t->arena); }

void tape_reset(Tape *t) {
    arena_rewind(&t->arena, (ArenaMark){.block = t->arena.first});
    t->last = NULL;
    t->penalty = NULL;
}

void *tape_alloc(Tape *t, size_t bytes) { return arena_alloc(&t->arena, bytes); }

Mat *tape_mat(Tape *t, int n, int d) {
    size_t bytes = (size_t)n * (size_t)d * sizeof(float);
    Mat *m = tape_alloc(t, sizeof *m);
    *m = (Mat){
        .n = n, .d = d, .x = tape_alloc(t, bytes), .dx = t->recording ? tape_alloc(t, bytes) : NULL, .blank = true};
    return m;
}

Mat *tape_view(Tape *t, Mat *m, int n, int d) {
    BUG_ON((size_t)n * (size_t)d != (size_t)m->n * (size_t)m->d);
    Mat *view = tape_alloc(t, sizeof *view);
    *view = (Mat){.n = n, .d = d, .x = m->x, .dx = m->dx, .of = m->of ? m->of : m};
    return view;
}

/* The Mat whose dx and blank count; a view follows its buffer, which mat_pass_on may have exchanged. */
static Mat *owner(Mat *m) {
    if (!m->of) return m;
    m->dx = m->of->dx;
    return m->of;
}

float *mat_gradient(Mat *m) {
    Mat *o = owner(m);
    if (o->blank) memset(o->dx, 0, (size_t)o->n * (size_t)o->d * sizeof(float));
    o->blank = false;
    return o->dx;
}

bool mat_first(Mat *m) {
    Mat *o = owner(m);
    bool first = o->blank;
    o->blank = false;
    return first;
}

void mat_pass_on(Mat *y, Mat *b) {
    float *dy = mat_gradient(y);
    Mat *from = owner(y), *to = owner(b);
    if (mat_first(b)) {
        from->dx = to->dx;
        to->dx = dy;
        owner(b);
        return;
    }
#pragma omp parallel for if (team_pays((size_t)y->n * (size_t)y->d, TEAM_ELEMENTS))
    for (int i = 0; i < y->n; i++)
        kernels->add_row(y->d, dy + (size_t)i * (size_t)y->d, to->dx + (size_t)i * (size_t)y->d);
}

void tape_push(Tape *t, void (*backward)(void *), void *context) {
    BUG_ON(!t->recording);
    TapeNode *node = tape_alloc(t, sizeof *node);
    *node = (TapeNode){.previous = t->last, .backward = backward, .context = context};
    t->last = node;
}

static void run_backward(const TapeNode *from, const TapeNode *until) {
    for (const TapeNode *node = from; node != until; node = node->previous) node->backward(node->context);
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
} Recompute;

/* The same both times: its nodes hang on c's own, its penalty on the one before, whatever is newer by now. */
static Mat *record(const Recompute *c) {
    c->tape->last = c->node;
    c->tape->penalty = c->penalty_before;
    return c->forward(c->context, c->x);
}

static bool adds_penalty(const Recompute *c) { return c->tape->penalty != c->penalty_before; }

static void recompute_backward(void *context) {
    const Recompute *c = context;
    Tape *t = c->tape;
    ArenaMark mark = arena_mark(&t->arena);
    const float *dx = c->x->dx;
    mat_pass_on(c->y, record(c));
    if (adds_penalty(c)) mat_pass_on(c->penalty, t->penalty);
    run_backward(t->last, c->node);
    BUG_ON(c->x->dx != dx); /* exchanged for a buffer that is gone now */
    arena_rewind(&t->arena, mark);
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
    ArenaMark mark = arena_mark(&t->arena);
    const Mat *y = record(c);
    BUG_ON(y->n != x->n || y->d != x->d);
    memcpy(c->y->x, y->x, (size_t)y->n * (size_t)y->d * sizeof(float));
    if (adds_penalty(c)) {
        c->penalty->x[0] = t->penalty->x[0];
        t->penalty = c->penalty;
    }
    t->last = c->node;
    arena_rewind(&t->arena, mark);
    return c->y;
}
