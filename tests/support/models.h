/* models: small models for tests, with weights of their own in flat buffers. */
#ifndef NOISED_TEST_MODELS_H
#define NOISED_TEST_MODELS_H

#include "model/transformer.h"

typedef struct TestModel {
    Model model;
    float *data, *grad; /* [count] what is trained; behind it in data what is not */
    size_t count;
} TestModel;

/* Declares c with weights drawn so that nothing sits at a special value: norms near 1, biases, noise and NOBLE
 * outputs far from 0. NULL config errors fail the running test and return false. */
bool test_model_init(TestModel *t, const Config *c, uint64_t seed);
void test_model_free(TestModel *t);

/* A small base config of the kind (rows of other switches off): vocab 19, width 12, 2 layers, 2 heads x 4. */
Config test_config(const AttentionKind *kind);
/* Turns on what `variant` names: "plain", "noise", "key", "sequence" (noise of that span), "components" and "residual"
 * (of which a sequence has one, on the queries and on the rows), "sas", "noble", "window", "all". Registry-driven tests
 * loop over these. */
extern const char *const test_variants[10];
Config test_variant(const AttentionKind *kind, const char *variant);

/* Two evaluations along the gradient's own direction: d loss = |g| h. `loss` adds the gradient to t->grad on request.
 */
void test_gradient(TestModel *t, const char *name, double (*loss)(const Model *m, void *context, bool backward),
                   void *context);

/* Serving-path logits [n, V] of one sequence fed in the given chunk sizes (the last repeats), malloc'ed. The cache is
 * F32, but of BF16 embeddings BF16. */
float *test_serve(const Model *m, const int *tokens, int n, NoiseKey noise, const int *chunks, int n_chunks);
/* The same over a cache of the given form and precision; test_serve takes the config's own form in F32, and none where
 * it can have none: then all rows go at once. */
float *test_serve_form(const Model *m, const int *tokens, int n, NoiseKey noise, const int *chunks, int n_chunks,
                       KvForm form, Dtype dtype);

#endif
