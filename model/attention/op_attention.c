#include "model/attention/op_attention.h"

#include "base/arena.h"
#include "base/err.h"

/* Keys of other rows than the queries': nobody asks for them again, so they live in scratch. */
static void serve_scratch(Forward *f, const Mat *q, const Mat *k, const Mat *v, Mat *y, const AttentionSpec *spec) {
    Tape *t = f->tape;
    ArenaMark mark = arena_mark(&t->arena);
    int n_blocks;
    AttentionSpec own = *spec;
    own.keys = kv_number_blocks(t, spec->keys, &n_blocks);
    KvLayer kv = kv_scratch(t, spec->heads, kv_precision(t), n_blocks);
    kv_append(&kv, own.keys, k, v);
    attention_serve(f, &kv, f->batch, q, y, &own);
    arena_rewind(&t->arena, mark);
}

Mat *op_attention(Forward *f, Mat *q, Mat *k, Mat *v, const AttentionSpec *spec) {
    HeadShape s = spec->heads;
    BUG_ON(q->d != s.heads * s.k_dim || k->d != s.kv_heads * s.k_dim || v->d != s.v_heads * s.v_dim);
    BUG_ON(spec->keys && (spec->causal || spec->keys->n_segments != f->batch->n_segments));
    Mat *y = tape_mat(f->tape, q->n, s.heads * s.v_dim);
    if (f->tape->recording) {
        attention_train(f, q, k, v, y, spec);
    } else if (spec->keys) {
        serve_scratch(f, q, k, v, y, spec);
    } else {
        kv_append(f->kv, f->batch, k, v);
        attention_serve(f, f->kv, f->batch, q, y, spec);
    }
    return y;
}
