/* bind: matches the parameters that a model declares with the tensors of a folder, by name, and points one at the
 * other.
 *
 * Everything is checked before the first pointer is made: every parameter has its tensor and every tensor its
 * parameter, shapes are equal, dtypes allowed (matrices F32, BF16, F16, I8 with <name>_scale F32 [out, in / 64], or
 * U8 with <name>_scale F16, which is I4 of tensor.h, in blocks; every other parameter F32, BF16 or F16).
 *
 * Two things are copied into memory of our own instead of being borrowed from the mapping: parameters that are always
 * F32 in memory but are not in the file (small), and mlp.gate_proj + mlp.up_proj, which Hugging Face keeps apart and
 * our one linear gate_up_proj needs joined (a third of such a checkpoint, then). */
#ifndef NOISED_BIND_H
#define NOISED_BIND_H

#include "base/err.h"
#include "model/transformer.h"
#include "weights/shards.h"

/* Tensors that follow from others are dropped (shards.h). *owned is the memory that was needed besides the mapping,
 * NULL when none: the caller's to free after the model. */
int bind_model(Model *m, Shards *shards, void **owned, Err *err);

#endif
