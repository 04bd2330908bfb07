/* attention: project (kind) -> expand (SAS) -> score + noise -> causal softmax -> mix v -> aggregate -> o_proj.
 *
 * A kind is one file in attention/ with `declare` and `project`, and one line in attention/registry.c. Everything
 * else (gradients, KV cache, noise, SAS, NOBLE, checkpoint names, tests) follows from those two functions. */
#ifndef NOISED_ATTENTION_H
#define NOISED_ATTENTION_H

#include "base/err.h"
#include "model/forward.h"
#include "model/linear.h"
#include "model/noise.h"
#include "model/sas.h"

typedef struct Qkv {
    Mat *q, *k, *v; /* [n, H k_dim], [n, G k_dim], [n, G v_dim]; k may be q itself (symmetric) */
    float scale;    /* of the score q . k: 1 / sqrt(dimension of the dotted vectors) */
} Qkv;

/* Optional second form of a kind: the row that is enough to cache, and how k and v come back from it. Serving only. */
typedef struct CompactForm {
    int (*width)(const Config *c);
    Qkv (*project)(Forward *f, const void *weights, Mat *x); /* q as ever; k is the row [n, width], v NULL */
    void (*restore)(Forward *f, const void *weights, Mat *rows, Qkv *p); /* [T, width] -> p->k, p->v */
    /* Optional third way: queries that read the rows themselves. q . k = absorb(q) . row, and v = unfold(the first
     * value_width floats of the row), so that neither k nor v is ever made. */
    bool (*absorbs)(const Config *c, const void *weights);
    int (*value_width)(const Config *c);
    Mat *(*absorb)(Forward *f, const void *weights, Mat *q); /* [n, H k_dim] -> [n, H width] */
    Mat *(*unfold)(Forward *f, const void *weights, Mat *y); /* [n, H value_width] -> [n, H v_dim] */
} CompactForm;

struct AttentionKind {
    const char *name;                   /* attention.kind in config.json */
    const char *keys[ATTENTION_VALUES]; /* its own integer keys there; all required, all positive */
    size_t weights_size;
    int (*check)(const Config *c, Err *err); /* extra rules; may be NULL */
    void (*declare)(void *weights, ParamSet *ps, const Config *c);
    Qkv (*project)(Forward *f, const void *weights, Mat *x); /* x [n, d]; rope is the kind's business */
    HeadShape (*heads)(const Config *c);                     /* before SAS */
    const CompactForm *compact;                              /* NULL: compact means the k and v before SAS */
};

extern const AttentionKind *const attention_kinds[]; /* NULL-terminated */
const AttentionKind *attention_kind_find(const char *name);

typedef struct Attention {
    void *weights; /* kind->weights_size bytes, owned */
    Linear o_proj; /* [d, H v_dim] */
    Sas sas;
    Noise noise;
} Attention;

void attention_declare(Attention *a, ParamSet *ps, const Config *c);
void attention_free(Attention *a);
Mat *attention(Forward *f, const Attention *a, Mat *x); /* [n, d] -> [n, d] */

/* For kinds: rope on heads of dimension dim, unless positions are not rope or SAS rotates after expansion. */
Mat *attention_rope(Forward *f, Mat *x, int heads, int dim);

#endif
