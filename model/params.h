/* params: every parameter is declared once, and everybody runs that declaration.
 *
 * The model declares name, shape and initial distribution; the trainer then allocates and initialises, a checkpoint
 * binds or saves, `inspect` counts. There is no other list of tensors anywhere.
 * A ParamSet is built by one thread and read-only afterwards; it owns the names, not the Weights. */
#ifndef NOISED_PARAMS_H
#define NOISED_PARAMS_H

#include "model/tensor.h"

typedef enum InitKind { INIT_CONSTANT, INIT_HALVES, INIT_NORMAL, INIT_UNIFORM } InitKind;

/* CONSTANT: a. HALVES: a, then from the middle on b. NORMAL: mean a, standard deviation b. UNIFORM: in [a, b]. */
typedef struct Init {
    InitKind kind;
    float a, b;
} Init;

typedef struct Param {
    Weight *weight;
    char *name; /* owned by the set; weight->name points here */
    Init init;
    bool matrix;    /* may be stored and held as BF16, F16 or I8; every other parameter is F32 in memory */
    bool frozen;    /* never trained: in none of the flat buffers, bound by the code that has the values */
    bool decay;     /* weight decay acts on it */
    bool product;   /* a matrix that nothing reads while training but op_linear */
    float lr_scale; /* NOBLE's learning-rate multipliers; 1 elsewhere */
    int bin;        /* weight-noise bin: layer number + 1, 0 for what belongs to no layer */
} Param;

typedef struct ParamSet {
    Param *params;
    int n, capacity;
    char prefix[96]; /* prepended to declared names, e.g. "model.layers.3.self_attn." */
    int bin;
} ParamSet;

/* Declares w as <prefix><name> with dims[n_dims]. Traits that follow from the shape (matrix: two dimensions;
 * decay: two or more) can be changed on the returned Param, valid until the next declaration. */
Param *param_declare(ParamSet *ps, Weight *w, const char *name, int n_dims, const int *dims, Init init);

/* Appends to the prefix; returns the old length for params_leave. */
size_t params_enter(ParamSet *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void params_leave(ParamSet *ps, size_t prefix_length);

size_t params_count(const ParamSet *ps);                  /* elements of all parameters */
Dtype params_dtype(const ParamSet *ps);                   /* that most elements have */
size_t param_trained(const Param *p);                     /* elements in a flat buffer: 0 of a frozen one */
size_t params_trained(const ParamSet *ps);                /* of all: the length of a flat buffer */
Param *params_find(const ParamSet *ps, const char *name); /* NULL when there is none; linear */
void params_free(ParamSet *ps);

/* value[0..count) by the declared distribution; draws depend on (seed, name), so adding a tensor moves no other. */
void param_init(const Param *p, uint64_t seed, float *value);

/* Points every weight's data and grad into flat buffers of params_trained() floats (64-byte aligned pieces are not
 * needed: kernels take any float alignment). grad may be NULL. Frozen parameters keep what they are bound to. */
void params_bind_flat(ParamSet *ps, float *data, float *grad);

#endif
