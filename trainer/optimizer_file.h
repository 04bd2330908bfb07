/* optimizer_file: optimizer.safetensors, all that training changes: master.<name>, m.<name>, v.<name> in F32 of every
 * parameter in ps, and how many steps they have behind them. Its rename is the commit of a save.
 *
 * All ranks write it at once, each the slices that it owns (slices.h) at their offsets in the temp of rank 0, who
 * commits when all that is on the disk. The file does not depend on how many they are. Its digest is a tree, so that
 * nobody has to read what others hold: slices.sha256, I8 [slices, 3, 32], has the SHA-256 of every slice of master, m
 * and v, and the header, as parts_sha256, that of this tensor. A reader takes what it owns, and of master all, and
 * proves that.
 *
 * Files without such a tensor, of older programs, have one digest of all data, and are read as a whole. */
#ifndef NOISED_OPTIMIZER_FILE_H
#define NOISED_OPTIMIZER_FILE_H

#include "base/err.h"
#include "trainer/optimizer.h"

/* By all ranks; o was initialised with ps. */
int optimizer_save(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);
int optimizer_load(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t *step, Err *err);

#endif
