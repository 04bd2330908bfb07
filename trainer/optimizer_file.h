/* optimizer_file: optimizer.safetensors, all that training changes: master.<name>, m.<name>, v.<name> in F32 of every
 * parameter in ps, and how many steps they have behind them. Its rename is the commit of a save. */
#ifndef NOISED_OPTIMIZER_FILE_H
#define NOISED_OPTIMIZER_FILE_H

#include "base/err.h"
#include "trainer/optimizer.h"

/* o was initialised with ps. */
int optimizer_save(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);
int optimizer_load(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t *step, Err *err);

#endif
