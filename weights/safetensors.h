/* safetensors: the file format (spec section 2): 8-byte little-endian header length, JSON header, raw row-major data.
 *
 * Reading maps the file read-only and refuses anything that is not exactly the format: header too long for the file or
 * for SAFE_HEADER_MAX, bad or duplicate JSON keys, unknown dtype, shape that does not match its byte range, offsets
 * that overlap, leave holes or do not end at the end of the file, more than SAFE_TENSORS_MAX tensors, misaligned data.
 * All arithmetic on numbers from the file is overflow-checked. Writing is atomic (temp + fsync + rename + dir fsync),
 * with data starting on a 64-byte boundary and tensors in name order, so equal contents give equal bytes. The metadata
 * of a file of ours holds the SHA-256 of its data: the header alone identifies the whole file. */
#ifndef NOISED_SAFETENSORS_H
#define NOISED_SAFETENSORS_H

#include "base/err.h"
#include "base/sha256.h"
#include "model/tensor.h"
#include "weights/map_guard.h"

enum { SAFE_HEADER_MAX = 16 << 20, SAFE_TENSORS_MAX = 65536, SAFE_DIMS_MAX = 4 };

typedef struct SafeTensor {
    char *name;
    Dtype dtype;
    bool is_mask; /* BOOL or U8 in the file (I8 here): some files carry attention masks, which no weight can be */
    int shard;    /* which file of a folder it is in (shards.h), else 0 */
    int n_dims, dims[SAFE_DIMS_MAX];
    const void *data; /* into the mapping */
    size_t bytes;
} SafeTensor;

typedef struct SafeFile {
    SafeTensor *tensors; /* sorted by name */
    int n;
    void *map;
    size_t map_bytes;
    MapGuard guard;
    char *metadata_step;   /* "__metadata__".step, or NULL */
    char *metadata_sha256; /* of the data, 64 hexadecimal digits; NULL in other programs' files */
} SafeFile;

int safe_open(SafeFile *f, const char *path, Err *err);
void safe_close(SafeFile *f);
bool safe_intact(const SafeFile *f);               /* the file is still what was mapped; ask after use (map_guard.h) */
size_t safe_header_bytes(const SafeFile *f);       /* of the length and the header together: where the data begins */
void safe_hash_data(const SafeFile *f, Sha256 *s); /* adds every byte behind the header */
const SafeTensor *safe_find(const SafeFile *f, const char *name); /* NULL when absent; binary search */

/* A tensor to be written: data read on the spot as F32 or as raw I8/BF16 bytes of `dtype`; `source` F32 with dtype
 * BF16 is rounded while writing. */
typedef struct SafeOut {
    const char *name;
    Dtype dtype;  /* in the file */
    Dtype source; /* of data */
    int n_dims, dims[SAFE_DIMS_MAX];
    const void *data;
} SafeOut;

int safe_save(const char *path, const SafeOut *tensors, int n, uint64_t step, Err *err);

#endif
