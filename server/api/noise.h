/* GET /noise: what a checkpoint's noise is. */
#ifndef NOISED_API_NOISE_H
#define NOISED_API_NOISE_H

#include "base/buffer.h"
#include "model/transformer.h"

/* {"scope":"none"|"layer"|"head","density":"gaussian"|"mixture","span":"pair"|"key"|"sequence","conditioned":bool,
 * "sigma":[[…],…]}, and where a sequence has a component "site":"query"|"residual","components":M; sigma [layer][head],
 * the standard deviation at noise_scale 1 of what is added to a score, or for span sequence to a feature of the query
 * (one number a layer for scope layer); null when conditioned, for it then depends on the token; empty without noise.
 */
void noise_print(Buffer *b, const Model *m);

#endif
