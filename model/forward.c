#include "model/forward.h"

#include "base/err.h"
#include "model/ops/op.h"
#include "model/shape.h"

static const int *row_positions(Tape *t, const Batch *batch) {
    int *positions = tape_alloc(t, (size_t)batch->n * sizeof *positions);
    int row = 0;
    for (int s = 0; s < batch->n_segments; s++) {
        const Segment *seg = &batch->segments[s];
        BUG_ON(seg->row0 != row);
        for (int i = 0; i < seg->n; i++) positions[row++] = seg->pos0 + i;
    }
    BUG_ON(row != batch->n);
    return positions;
}

Forward *forward_layers(const Config *c, int first, int n, Tape *tape, const Batch *batch, const KvCache *kv) {
    int n_blocks = 0;
    Forward *f = tape_alloc(tape, (size_t)n * sizeof *f);
    KvLayer *layers = NULL;
    if (!tape->recording) {
        layers = tape_alloc(tape, (size_t)n * sizeof *layers);
        if (!kv) batch = kv_number_blocks(tape, batch, &n_blocks);
        for (int l = 0; l < n; l++)
            layers[l] = kv ? kv_layer(kv, first + l) : l ? layers[0] : kv_local(tape, c, n_blocks);
    }
    const int *positions = row_positions(tape, batch);
    const float *table = config_rope_parts(c) ? rope_table(tape, batch->n, positions, config_rope_dim(c), c) : NULL;
    for (int l = 0; l < n; l++)
        f[l] = (Forward){.tape = tape,
                         .cfg = c,
                         .batch = batch,
                         .positions = positions,
                         .rope_table = table,
                         .kv = layers ? &layers[l] : NULL,
                         .layer = first + l};
    return f;
}
