/* optimizer_file: optimizer.safetensors, all that training changes: master.<name>, m.<name>, v.<name> in F32 of every
 * parameter in ps, and how many steps they have behind them. Its rename is the commit of a save. */
#ifndef NOISED_OPTIMIZER_FILE_H
#define NOISED_OPTIMIZER_FILE_H

#include "base/err.h"
#include "trainer/optimizer.h"

/* Rank 0 writes, in the order of the file, for its sha256 is one chain; the others call this too and send it the
 * moments that they own as it asks for them, so that the file does not depend on how many there are. Rank 0 has two
 * places as large as the largest tensor meanwhile. Each loads what it owns.
 *
 * o was initialised with ps. */
int optimizer_save(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);
int optimizer_load(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t *step, Err *err);

#endif
