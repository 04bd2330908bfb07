/* Training steps of a BiLSTM tagger, without the optimizer: forward, loss, backward. bench_lstm.py runs it beside
 * PyTorch's.  bench-lstm HIDDEN LAYERS SENTENCES STEPS -> seconds of each step, a line each */
#include "base/clock.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/transformer.h"
#include "weights/presets_words.h"

#include <stdlib.h>
#include <string.h>

enum { SENTENCES_MAX = 256, LENGTH_LEAST = 5, LENGTH_SPREAD = 25, WORDS = 1000, LABELS = 13 };

static void make_batch(Batch *b, Segment *segments, int *tokens, int *targets, int sentences) {
    *b = (Batch){.tokens = tokens, .segments = segments, .n_segments = sentences};
    for (int s = 0; s < sentences; s++) {
        segments[s] = (Segment){.row0 = b->n, .n = LENGTH_LEAST + 7 * s % LENGTH_SPREAD};
        b->n += segments[s].n;
    }
    for (int i = 0; i < b->n; i++) {
        tokens[i] = 31 * i % WORDS;
        targets[i] = i % LABELS;
    }
}

static double step(const Model *m, Tape *tape, const Batch *b, const int *targets, float *grad) {
    double started = now_seconds();
    memset(grad, 0, params_trained(&m->params) * sizeof *grad);
    tape_reset(tape);
    Mat *loss = model_loss(tape, model_forward(m, tape, b, NULL), targets, NULL, 0, NULL);
    tape_backward(tape, loss);
    return now_seconds() - started;
}

int main(int argc, char **argv) {
    static int tokens[SENTENCES_MAX * (LENGTH_LEAST + LENGTH_SPREAD)], targets[COUNTOF(tokens)];
    Segment segments[SENTENCES_MAX];
    Batch batch;
    Config c;
    Model m;
    Tape tape;
    Err err;
    if (argc != 5 || atoi(argv[3]) > SENTENCES_MAX || !preset_words(&c, "ner-deep")) return 2;
    c.hidden_size = atoi(argv[1]);
    c.n_layers = atoi(argv[2]);
    c.vocab_size = WORDS;
    c.n_labels = LABELS;
    if (kernels_init(&err) || model_init(&m, &c, &err)) return fprintf(stderr, "%s\n", err.msg), 1;
    float *data = xcalloc(params_count(&m.params), sizeof *data);
    float *grad = xcalloc(params_trained(&m.params), sizeof *grad);
    params_bind_flat(&m.params, data, grad);
    for (int i = 0; i < m.params.n; i++) {
        Param *p = &m.params.params[i];
        if (p->frozen) p->weight->data = data + params_trained(&m.params);
        param_init(p, 1, weight_f32(p->weight));
    }
    make_batch(&batch, segments, tokens, targets, atoi(argv[3]));
    tape_init(&tape, true);
    for (int i = 0; i < atoi(argv[4]) + 2; i++) {
        double seconds = step(&m, &tape, &batch, targets, grad);
        if (i >= 2) printf("%.6f\n", seconds);
    }
    tape_free(&tape);
    model_free(&m);
    free(data);
    free(grad);
    return 0;
}
