#include "tape.h"

#include "kernels/kernels.h"

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
#pragma omp parallel for if ((size_t)y->n * (size_t)y->d > 1 << 14)
    for (int i = 0; i < y->n; i++)
        kernels->add_row(y->d, dy + (size_t)i * (size_t)y->d, to->dx + (size_t)i * (size_t)y->d);
}

void tape_push(Tape *t, void (*backward)(void *), void *context) {
    BUG_ON(!t->recording);
    TapeNode *node = tape_alloc(t, sizeof *node);
    *node = (TapeNode){.previous = t->last, .backward = backward, .context = context};
    t->last = node;
}

void tape_backward(Tape *t, Mat *loss) {
    BUG_ON(loss->n != 1 || loss->d != 1);
    mat_gradient(loss)[0] = 1;
    for (TapeNode *node = t->last; node; node = node->previous) node->backward(node->context);
}
