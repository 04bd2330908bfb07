/* corpus_index: a folder of token ids, as `noised-train tokenize` leaves it.
 *
 *     index.json       what this header reads and writes
 *     tokenizer.json   of the ids, as tokenizer_json_save writes it
 *     train-00000.ids, train-00001.ids, ...   the row of ids to train on, in shards of 64 MiB but for the last
 *     held_out-00000.ids, ...                 the row of those held out, perhaps none
 *     checked.json     which files were found to have their sha256 (corpus_map.h)
 *
 * Ids are little-endian, 2 bytes each up to a vocabulary of 65,536, else 4. What stands in the rows says corpus.h.
 *
 *     {"format": "noised corpus 1", "tokenizer_sha256": "...", "vocab_size": 8192, "separator": 0,
 *      "shard_bytes": 67108864,
 *      "train": {"ids": 12345, "bytes": 45678, "sha256": ["...", ...]}, "held_out": {...},
 *      "unfinished": {"field": "text", "val": null, "sources": [{"path": "a.txt", "bytes": 99, "modified": "123"}],
 *                     "source": 0, "byte": 65536, "line": 800}}
 *
 * bytes are those of text. `unfinished` is there until all is tokenised: what of, and the place to go on from, to which
 * the rows reach; of a row's last shard, if it is not full, the sha256 is missing then. */
#ifndef NOISED_CORPUS_INDEX_H
#define NOISED_CORPUS_INDEX_H

#include "base/files.h"
#include "base/sha256.h"
#include "trainer/text/texts.h"

enum { SHARD_BYTES = 1 << 26, SHARD_UNIT = 1 << 16, CORPUS_ROWS = 2, NARROW_VOCAB = 65536 };
typedef enum CorpusRowKind { ROW_TRAIN, ROW_HELD_OUT } CorpusRowKind;
extern const char *const corpus_row_names[CORPUS_ROWS];

typedef struct CorpusRow {
    uint64_t ids, bytes;
    char (*sums)[SHA256_HEX]; /* [n_sums] of whole shards, and of a finished row's last one */
    int n_sums;
} CorpusRow;

typedef struct CorpusSource {
    char *path;
    int64_t bytes, modified; /* of the file; nanoseconds */
} CorpusSource;

typedef struct CorpusIndex {
    char tokenizer[SHA256_HEX]; /* tokenizer_json_sha256 */
    int vocab_size, separator;  /* separator -1: none */
    size_t shard_bytes;         /* of a full one: a multiple of SHARD_UNIT, so that shards can be mapped side by side */
    CorpusRow rows[CORPUS_ROWS];
    bool unfinished; /* the rest is of such a one */
    char *field, *val;
    CorpusSource *sources;
    int n_sources, source; /* the one that `at` is in */
    TextPlace at;
} CorpusIndex;

static inline int corpus_width(const CorpusIndex *x) { return x->vocab_size <= NARROW_VOCAB ? 2 : 4; }
int corpus_shards(const CorpusIndex *x, CorpusRowKind row);                    /* begun ones too */
size_t corpus_shard_bytes(const CorpusIndex *x, CorpusRowKind row, int shard); /* that the row's ids fill of it */

/* Fails by the name of the file and the field: also where the numbers do not fit each other. */
int corpus_index_load(CorpusIndex *x, const char *dir, Err *err);
int corpus_index_save(const CorpusIndex *x, const char *dir, Err *err); /* atomic */
void corpus_index_free(CorpusIndex *x);
bool corpus_is(const char *path); /* a folder with an index */
/* An item of --data: of "DIR:3", unless there is a file of that name, DIR into dir and the digits returned, else all of
 * it and NULL. */
const char *corpus_item(const char *item, char dir[PATH_BYTES]);

/* What stands for all ids and their tokenizer. */
void corpus_index_sha256(const CorpusIndex *x, char hex[SHA256_HEX]);

/* DIR/train-00007.ids */
int corpus_shard_path(char path[PATH_BYTES], const char *dir, CorpusRowKind row, int shard, Err *err);

#endif
