/* shards: the tensors of a checkpoint folder, in one file or in several.
 *
 *     model.safetensors
 *     model.safetensors.index.json   {"weight_map": {tensor: file}}, and the files that it names, beside it
 *
 * A folder with both is refused, for nothing says which of them counts. With an index, every tensor must lie in the
 * file that the index says and nowhere else, and every tensor of every file must be in the index. */
#ifndef NOISED_SHARDS_H
#define NOISED_SHARDS_H

#include "base/err.h"
#include "weights/safetensors.h"

enum { SHARDS_MAX = 256 };

typedef struct Shards {
    SafeFile *files; /* [n_files], in the order of their names */
    char **names;    /* [n_files] paths */
    int n_files;
    SafeTensor *tensors; /* [n] of all files, sorted by name; names and data belong to the files, or are in owned */
    int n;
    void **owned; /* [n_owned] what did not come from the files as it stands (gpt2.h) */
    int n_owned;
    const char **dropped; /* [n_dropped] names in the files of tensors that are no weights of the network */
    int n_dropped;
    const char *gpt2; /* what stands before the names that were translated (gpt2.h); NULL: the names are the files' */
} Shards;

/* copy: safe_open_copy. */
int shards_open(Shards *s, const char *dir, bool copy, Err *err);
void shards_close(Shards *s);
const SafeTensor *shards_find(const Shards *s, const char *name); /* NULL when absent; binary search */

/* For code that replaces tensors: memory that lives as long as s, and the order of the new list. */
void *shards_alloc(Shards *s, size_t n);
int shards_sort(Shards *s, Err *err); /* -1 when two tensors bear the same name */

void shards_drop(Shards *s, const SafeTensor *t); /* t is no weight */

/* Adds what identifies the files to h: their headers, which hold a digest of the data, and the digest of the data of
 * those that do not say it (other programs write none). */
void shards_hash(const Shards *s, Sha256 *h);
/* False once a file was changed, cut short or could not be read: nothing computed from it counts. */
bool shards_intact(const Shards *s);
int shards_check_intact(const Shards *s, Err *err); /* the same; the error names the file */

#endif
