/* safetensors: the file format (docs/spec.md 2.3): 8-byte little-endian header length, JSON header, raw row-major data.
 *
 * Reading maps the file read-only and refuses anything that is not exactly the format: header too long for the file or
 * for SAFE_HEADER_MAX, bad or duplicate JSON keys, unknown dtype, shape that does not match its byte range, offsets
 * that overlap, leave holes or do not end at the end of the file, more than SAFE_TENSORS_MAX tensors, misaligned data.
 * All arithmetic on numbers from the file is overflow-checked. Writing is atomic (temp + fsync + rename + dir fsync),
 * with data starting on a 64-byte boundary and tensors in name order, so equal contents give equal bytes. Where that
 * would leave one misaligned (F32 behind an odd number of BF16), the wider dtypes come first, as the format allows no
 * padding. The metadata of a file of ours holds the SHA-256 of its data: the header alone identifies the whole file.
 *
 * Opening reads all data once: it must have that digest and hold neither NaN nor infinity. Nobody sees other weights.
 *
 * A file that many write, each in its places, and of which each reads a part, has the digests of its parts as a tensor
 * and in the metadata that tensor's (trainer/optimizer_file.h). safe_head says where the places are, safe_open_unread
 * leaves the proof to who reads. */
#ifndef NOISED_SAFETENSORS_H
#define NOISED_SAFETENSORS_H

#include "base/err.h"
#include "model/tensor.h"
#include "weights/map_guard.h"
#include "weights/proof.h"

enum { SAFE_HEADER_MAX = 16 << 20, SAFE_TENSORS_MAX = 65536, SAFE_DIMS_MAX = 4 };

typedef struct SafeTensor {
    char *name;
    Dtype dtype;
    bool is_mask; /* BOOL or U8 in the file (I8 and I4 here): some files carry attention masks; U8 is codes if bind.h
                     says */
    int shard;    /* which file of a folder it is in (shards.h), else 0 */
    int n_dims, dims[SAFE_DIMS_MAX];
    const void *data; /* into the mapping */
    size_t bytes;
    /* ---- for messages, when it was made of a tensor of another program (gpt2.h) ---- */
    const char *theirs; /* the name in the file; NULL: name */
    bool transposed;    /* it lies there as [in, out] */
    int part_of;        /* and is one of so many equal pieces of it, cut across the last dimension; 0: it is whole */
} SafeTensor;
int safe_tensor_by_name(const void *a, const void *b); /* for qsort and bsearch */

typedef struct SafeFile {
    SafeTensor *tensors; /* sorted by name */
    int n;
    void *map;
    size_t map_bytes;
    MapGuard guard;
    char *metadata_step;   /* "__metadata__".step, or NULL */
    char *metadata_sha256; /* of the data, 64 hexadecimal digits; NULL in other programs' files */
    char *metadata_parts;  /* "parts_sha256": the same of the tensor of digests; NULL: there is none */
    Proof *proof;          /* of the data */
} SafeFile;

int safe_open(SafeFile *f, const char *path, Err *err);
/* The same from a copy in memory, which nobody can write to or cut short. */
int safe_open_copy(SafeFile *f, const char *path, Err *err);
int safe_open_unread(SafeFile *f, const char *path, Err *err); /* not for safe_intact */
void safe_close(SafeFile *f);
size_t safe_header_bytes(const SafeFile *f); /* of the length and the header together: where the data begins */
/* Whether the data are still what was opened; ask after use. Where the file's times leave that open, all data are read
 * again (proof_holds). Thread-safe. */
bool safe_intact(const SafeFile *f);
void safe_condemn(const SafeFile *f);                             /* they are known not to be: never intact again */
const char *safe_file_name(const SafeTensor *t);                  /* for messages */
const SafeTensor *safe_find(const SafeFile *f, const char *name); /* NULL when absent; binary search */

/* A tensor to be written: data read on the spot as F32 or as raw I8/I4/BF16 bytes of `dtype`; `source` F32 with dtype
 * BF16 is rounded while writing. */
typedef struct SafeOut {
    const char *name;
    Dtype dtype;  /* in the file */
    Dtype source; /* of data */
    int n_dims, dims[SAFE_DIMS_MAX];
    const void *data;
} SafeOut;

/* The file up to its first byte of data, *bytes of it, malloc'ed; offsets[n]: where the tensors begin in the file. It
 * is as long whatever the digest is. */
char *safe_head(const SafeOut *tensors, int n, uint64_t step, const char parts_sha256[SHA256_HEX], size_t *bytes,
                size_t *offsets);

int safe_save(const char *path, const SafeOut *tensors, int n, uint64_t step, Err *err);

#endif
