/* attention_spec: what one softmax attention is told, and what follows from it for a row of scores. Both bodies of
 * op_attention work by it. */
#ifndef NOISED_ATTENTION_SPEC_H
#define NOISED_ATTENTION_SPEC_H

#include "model/forward.h"
#include "model/noise.h"

/* Scores of query i of score head `head`: those of keys first..first+n-1, all positions absolute. */
typedef struct ScoreRow {
    const Config *cfg;
    int layer, head, i, first, n;
} ScoreRow;

typedef struct AttentionSpec {
    HeadShape heads;
    float scale;
    bool causal;        /* query i sees keys 0..i; else all keys of its segment */
    int window;         /* `scores` hides the keys before i - window + 1, so that they need not be looked at; 0: none */
    const Batch *keys;  /* whose rows k and v are: segment s of the queries sees segment s of these; NULL: their own */
    const Noise *noise; /* NULL: no noise */
    const Mixture *mixtures; /* noise_mixtures */
    Mat *condition;          /* [n, 2 distributions] of noise_condition; NULL unless conditioned */
    void (*scores)(const ScoreRow *row, float *s, float *slope); /* AttentionKind.scores; NULL: no edit */
} AttentionSpec;

/* How many of a segment's keys query i sees. */
int attention_keys_seen(const AttentionSpec *spec, const Segment *keys, int i);

/* Noise of query row `row` (of the batch) at absolute position i in segment seg for `n` keys from `first` on; false
 * when it has none. */
bool attention_noise_row(const Forward *f, const AttentionSpec *spec, const Segment *seg, int head, int row, int i,
                         int first, int n, NoiseRow *out);

#endif
