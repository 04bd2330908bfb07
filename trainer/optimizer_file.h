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

#include "base/atomic_file.h"
#include "base/sha256.h"
#include "trainer/optimizer.h"
#include "weights/safetensors.h"

enum { OPTIMIZER_COPIES = 3 }; /* master, m and v */

/* The parameter that a slice belongs to, and the floats of it before the slice. */
typedef struct SlicePlace {
    int param;
    size_t first;
} SlicePlace;

/* One that is being written, by parts, so that a thread can do what takes long (save.h). */
typedef struct OptimizerOut {
    const Optimizer *o;
    const ParamSet *ps;
    uint64_t step;
    const float *data; /* [3, slices.owned]: what is written in place of o's; NULL: none is */
    SafeOut *tensors;  /* [n]: those of master, of m, of v, and the digests */
    int n;
    size_t *offsets; /* [n] in the file */
    SlicePlace *places;
    unsigned char (*digests)[OPTIMIZER_COPIES][SHA256_BYTES]; /* [slices.n] */
    unsigned char of_zeros[SHA256_BYTES];                     /* of a slice of SLICE */
    char path[PATH_BYTES];
    AtomicFile file;
} OptimizerOut;

/* By all ranks: -1 on all if on one. o was initialised with ps; both are borrowed. */
int optimizer_out_open(OptimizerOut *out, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step,
                       Err *err);
/* What this rank owns, to be written as it is now; to: [3, slices.owned], borrowed. */
void optimizer_out_copy(OptimizerOut *out, float *to);
/* This rank's part, until it is on the disk; of rank 0 with the commit. */
int optimizer_out_write(OptimizerOut *out, Err *err);
/* By all ranks, with what their writing returned: -1 on all if on one. */
int optimizer_out_meet(OptimizerOut *out, int rc, Err *err);
/* By rank 0, behind that. */
int optimizer_out_commit(OptimizerOut *out, Err *err);
/* The parameters of `all` that are in the committed file point at their master weights there, which are proved. */
int optimizer_out_bind(const OptimizerOut *out, SafeFile *f, const ParamSet *all, Err *err);
void optimizer_out_close(OptimizerOut *out); /* in any state; without a commit the file is as it was */

int optimizer_load(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t *step, Err *err);

#endif
