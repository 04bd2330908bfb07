/* convert: any folder that would be served, written anew as one of ours: one model.safetensors with our names, layout
 * and digest, a tokenizer.json, and what else the folder is served with (carry.h). */
#ifndef NOISED_CONVERT_H
#define NOISED_CONVERT_H

#include "base/err.h"
#include "weights/checkpoint.h"

#include <stdio.h>

/* `to` must not exist. Matrices become *dtype (F32, BF16, I8 or I4), or, when it is NULL, stay what they are: BF16 if
 * all are, else F32 (F16 is not written, and F32 holds it exactly). The step is the source's, 0 if it has none. `said`
 * gets lines for a person: sizes, precisions, what was carried over and what was dropped. */
int checkpoint_convert(const char *from, const char *to, const Dtype *dtype, FILE *said, Err *err);

/* Its parts, for who changes the model in between: whether `to` can be made, and, of c that was opened from `from`, the
 * folder with the weights of m in place of c's own. */
int convert_check_new(const char *to, Err *err);
int checkpoint_write(const Checkpoint *c, const Model *m, const char *from, const char *to, const Dtype *dtype,
                     FILE *said, Err *err);

#endif
