#include "tape.h"

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
    *m = (Mat){.n = n, .d = d, .x = tape_alloc(t, bytes), .dx = t->recording ? arena_calloc(&t->arena, bytes) : NULL};
    return m;
}

Mat *tape_view(Tape *t, const Mat *m, int n, int d) {
    BUG_ON((size_t)n * (size_t)d != (size_t)m->n * (size_t)m->d);
    Mat *view = tape_alloc(t, sizeof *view);
    *view = (Mat){.n = n, .d = d, .x = m->x, .dx = m->dx};
    return view;
}

void tape_push(Tape *t, void (*backward)(void *), void *context) {
    BUG_ON(!t->recording);
    TapeNode *node = tape_alloc(t, sizeof *node);
    *node = (TapeNode){.previous = t->last, .backward = backward, .context = context};
    t->last = node;
}

void tape_backward(Tape *t, Mat *loss) {
    BUG_ON(loss->n != 1 || loss->d != 1);
    loss->dx[0] = 1;
    for (TapeNode *node = t->last; node; node = node->previous) node->backward(node->context);
}
