/* tensor: the nouns of the project.
 *
 * Everything is rows: an activation is n rows of d floats, and a Batch says which rows belong to which sequence at
 * which position. Training is a batch of whole sequences, prefill a batch of chunks, decode a batch of single rows.
 *
 * Glossary of dimensions, used in every shape comment:
 *   n rows    d hidden_size    h mlp width    V vocabulary    L layers    T positions
 *   H heads   G kv heads       D head_dim     Hx, Dx expanded by SAS      r NOBLE rank
 * Linear weights are [out, in], y = x W^T + b. Gradients are called d<thing>. */
#ifndef NOISED_TENSOR_H
#define NOISED_TENSOR_H

#include "base/err.h"

typedef enum Dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I8, DTYPE_I4 } Dtype;

/* The last two are NOBLE's alone. */
typedef enum Activation {
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_SILU,
    ACT_RELU,
    ACT_SIGMOID,
    ACT_TANH,
    ACT_LEAKY_RELU
} Activation;

enum { INT8_GROUP = 64 }; /* inputs that share a scale */

/* I4: the codes of INT4_OUTS outputs x INT4_GROUP inputs are a block of INT4_BLOCK bytes, [4][INT4_OUTS][4]. Byte (q,
 * o, c) holds, plus 8, the code of input 4 q + c in its lower half and that of input 16 + 4 q + c in its upper one. */
enum { INT4_GROUP = 32, INT4_OUTS = 16, INT4_BLOCK = INT4_GROUP * INT4_OUTS / 2 };

size_t dtype_size(Dtype t);      /* of an element in a file; of I4 of a byte, which has two codes */
const char *dtype_name(Dtype t); /* "F32", as safetensors writes it; I4 is "U8" */
const char *dtype_said(Dtype t); /* the same for people, to whom I4 is "I4" */

/* A parameter. `data` is borrowed: from the checkpoint's read-only mapping, or from the trainer's flat buffer. */
typedef struct Weight {
    const char *name; /* checkpoint key; owned by the ParamSet */
    Dtype dtype;
    int n_dims, dims[3];
    void *data; /* [dims...] row-major, I4 [out / INT4_OUTS, in / INT4_GROUP] blocks; never written through a mapping */
    float *scale;      /* I8 only: [out, in / INT8_GROUP] */
    uint16_t *scale16; /* I4 only, F16: [out / INT4_OUTS, in / INT4_GROUP, INT4_OUTS] */
    float *grad;       /* trainer only, F32: [dims...]; NULL otherwise */
} Weight;

size_t weight_count(const Weight *w); /* elements */
static inline float *weight_f32(const Weight *w) { return (float *)w->data; }

/* An activation: x [n, d]; dx [n, d] is its gradient, NULL until something is added to it. Both live in the tape, which
 * says how dx is filled, and how long it is there (tape.h). */
typedef struct Mat {
    float *x, *dx;
    int n, d;
    struct Mat *of;    /* a view: the Mat whose memory it shows; NULL otherwise */
    struct Tape *tape; /* NULL: of none that records */
    struct Mat *older; /* of the same node */
} Mat;

/* Which noise tensor acts on a segment's score rows (docs/spec.md 4). The Gaussian of (layer, head, i, j) is a pure
 * function of these numbers, so neither batch, chunk nor cache can change it. */
typedef struct NoiseKey {
    uint64_t seed;
    uint32_t stream;   /* 0 inference, else 1 + training micro-batch */
    uint32_t sequence; /* row of the micro-batch when noise is drawn per sequence, else 0; below 65,536 */
    float scale;       /* factor on sigma */
    int component;     /* of a sequence that has one: its number + 1; 0: the seed draws it */
    bool means_only;   /* of such a sequence: as if every Gaussian were 0 */
} NoiseKey;

/* n consecutive rows of one sequence that already has pos0 tokens in the cache. */
typedef struct Segment {
    int row0, n, pos0;
    NoiseKey noise;
    const int *blocks; /* serving: KV block numbers of the sequence, [ceil((pos0 + n) / KV_BLOCK)]; training: NULL */
} Segment;

typedef struct Batch {
    const int *tokens;   /* [n] */
    const float *images; /* instead of tokens (Config.input): a segment each, [n_segments, channels, height, width];
                            a grey byte b is the pixel b / 127.5 - 1 */
    int n;
    const Segment *segments; /* [n_segments], covering rows 0..n-1 in order */
    int n_segments;
    const int *want; /* [n_want] rows whose logits are needed, ascending; NULL = all n */
    int n_want;
} Batch;

static inline float bf16_to_f32(uint16_t h) {
    union {
        uint32_t u;
        float f;
    } v = {.u = (uint32_t)h << 16};
    return v.f;
}

/* Round to nearest even; NaN stays NaN. */
static inline uint16_t f32_to_bf16(float f) {
    union {
        float f;
        uint32_t u;
    } v = {.f = f};
    if ((v.u & 0x7fffffff) > 0x7f800000) return (uint16_t)(v.u >> 16 | 0x40);
    return (uint16_t)((v.u + 0x7fff + (v.u >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* nearest even; infinity beyond 65,504 */

/* Element (row, column) of an I4 matrix whose rows have `in` elements. */
float int4_element(const uint8_t *codes, const uint16_t *scales, size_t in, size_t row, size_t column);

/* out[0..n) = elements first..first+n-1 of w as floats. */
void weight_read(const Weight *w, size_t first, size_t n, float *out);

#endif
