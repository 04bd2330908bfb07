/* attention: project (kind) -> expand (SAS) -> score + noise -> softmax -> mix v -> average (SAS) -> combine (kind)
 * -> o_proj. What a kind is stands in kind.h; kinds include this file for attention_rope. */
#ifndef NOISED_ATTENTION_H
#define NOISED_ATTENTION_H

#include "model/kind.h"
#include "model/forward.h"
#include "model/linear.h"
#include "model/noise.h"
#include "model/sas.h"

typedef struct Attention {
    void *weights; /* kind->weights_size bytes, owned */
    Linear o_proj; /* [d, o_width] */
    Sas sas;
    Noise noise;
} Attention;

void attention_declare(Attention *a, ParamSet *ps, const Config *c, const char *name); /* below <name>. */
void attention_free(Attention *a);

/* Self-attention, causal or not as the config says: [n, d] -> [n, d]. Serving, the keys and values are in f->kv, where
 * the new ones are put first. */
Mat *attention(Forward *f, const Attention *a, Mat *x);

/* Cross-attention: the queries are of x, all keys and values of `source`, the rows of another batch with as many
 * segments; segment s attends to all of segment s there. `of_source` is the Forward of those rows. Whole sequences,
 * recorded or not, without a cache. `project` runs on both rows, for the kinds know q, k and v only together. */
Mat *attention_cross(Forward *f, const Attention *a, Mat *x, Forward *of_source, Mat *source);

/* For kinds: rope on heads of dimension dim, unless positions are not rope or SAS rotates after expansion. */
Mat *attention_rope(Forward *f, Mat *x, int heads, int dim);

#endif
