/* kind: one row of the table of attention kinds. A kind is one file of this folder and one line of registry.c: what it
 * is asked for stands here, its traits too, so that nobody else knows a kind by its name. All else (gradients, KV
 * cache, noise, SAS, NOBLE, checkpoints, tests) follows from `declare`, `project` and `heads`, which every kind has.
 *
 *     x -> project -> q, k, v -> SAS -> softmax(scores(scale q . k) + noise) v -> SAS average -> combine -> o_proj */
#ifndef NOISED_ATTENTION_KIND_H
#define NOISED_ATTENTION_KIND_H

#include "model/config.h"
#include "model/params.h"

typedef struct Forward Forward;
typedef struct ScoreRow ScoreRow; /* attention/attention_spec.h */

/* All are Mats of the tape that nobody writes to: each may be another of them, or the x that `project` was given. */
typedef struct Qkv {
    Mat *q, *k, *v; /* [n, heads k_dim], [n, kv_heads k_dim], [n, v_heads v_dim] of `heads` */
} Qkv;

/* Optional second form of a kind: the row that is enough to cache, and how k and v come back from it. Serving only. */
typedef struct CompactForm {
    int (*width)(const Config *c);
    Qkv (*project)(Forward *f, const void *weights,
                   Mat *x); /* q as in kind->project; k is the row [n, width], v NULL */
    void (*restore)(Forward *f, const void *weights, Mat *rows, Qkv *p); /* [T, width] -> p->k, p->v */
    /* Optional third way: queries that read the rows themselves. q . k = absorb(q) . row, and v = unfold(the first
     * value_width floats of the row), so that neither k nor v is ever made. */
    bool (*absorbs)(const Config *c, const void *weights);
    int (*value_width)(const Config *c);
    Mat *(*absorb)(Forward *f, const void *weights, Mat *q); /* [n, H k_dim] -> [n, H width] */
    Mat *(*unfold)(Forward *f, const void *weights, Mat *y); /* [n, H value_width] -> [n, H v_dim] */
} CompactForm;

typedef struct AttentionKind {
    const char *name;                   /* attention.kind in config.json */
    const char *keys[ATTENTION_VALUES]; /* its own integer keys there; all required, all positive */
    size_t weights_size;

    /* Required. */
    void (*declare)(void *weights, ParamSet *ps, const Config *c);
    Qkv (*project)(Forward *f, const void *weights, Mat *x); /* x [n, d]; calls attention_rope where it rotates */
    HeadShape (*heads)(const Config *c);                     /* before SAS */

    /* Traits; false and NULL are what most kinds want. */
    bool own_kv_heads; /* num_key_value_heads may be below num_attention_heads */
    bool norms_heads;  /* knows what qk_norm asks for */
    bool unscaled;     /* the scores are q . k, not divided by sqrt(k_dim) */
    bool
        rotates_part; /* rope rotates a part of a head only: `check` sees to its size, and SAS may not rotate instead */
    bool rotates_late; /* q and k are rotated last and whole, so that SAS may rotate instead (sas.rope post) */

    /* Optional. */
    int (*check)(const Config *c, Err *err); /* extra rules */
    /* What o_proj gets, of the mixed values y [n, heads v_dim] (averaged to these heads when there is SAS):
     * [n, o_width]. NULL: y itself. */
    Mat *(*combine)(Forward *f, const void *weights, Mat *y);
    int (*o_width)(const Config *c); /* NULL: heads v_dim */
    /* Edits a row of scaled scores before the noise, but with the mean of conditioned noise in them: a bias of the
     * distance, -INFINITY for a key that is not to be seen (one must remain), any function of each score alone. slope,
     * when not NULL, takes d new / d old. */
    void (*scores)(const ScoreRow *row, float *s, float *slope);
    const CompactForm *compact; /* NULL: compact means the k and v before SAS */
} AttentionKind;

extern const AttentionKind *const attention_kinds[];             /* NULL-terminated */
const AttentionKind *attention_kind_find(const char *name);      /* NULL when there is none */
int attention_kind_key(const AttentionKind *k, const char *key); /* its index in keys; a key it lacks is a bug */

#endif
